/**
 * What something costs of a quota. Beside its bytes each object takes an entry of the S3 server's disk (an inode, a
 * block for what is kept about it), and so does each folder in its key: whoever stores nothing at all in a million
 * objects fills a disk all the same. An entry is charged as so many bytes, so the quota bounds both.
 */

/** Objects and folders that a key may bring into being. */
export function entriesOf(key: string): number {
  return key.split('/').filter((segment) => segment !== '').length;
}

/** Counts the entries of a listing: a folder once, since what is in it is listed together. */
export function createEntryCount(): (key: string) => number {
  let last: readonly string[] = [];
  return (physical) => {
    const segments = physical.split('/');
    // The Capsule's and the Assistant's own folders are the broker's, not theirs.
    const own = segments[2] === 'a' ? 4 : 3;
    let shared = 0;
    while (shared < segments.length - 1 && segments[shared] === last[shared]) shared += 1;
    last = segments.slice(0, -1);
    return segments.slice(Math.max(own, shared)).filter((segment) => segment !== '').length;
  };
}

/**
 * What an object costs of a quota. In addition to its bytes, each object and each folder in its key takes an entry of
 * the S3 server's disk (an inode, and a block for metadata), so that a million empty objects fill a disk, too. An entry
 * is charged as a number of bytes, so the quota limits both.
 */

/** The number of objects and folders that a key may create. */
export function entriesOf(key: string): number {
  return key.split('/').filter((segment) => segment !== '').length;
}

/** Counts the entries of a list; a folder counts once, since its objects are adjacent. */
export function createEntryCount(): (key: string) => number {
  let last: readonly string[] = [];
  return (physical) => {
    const segments = physical.split('/');
    // The folders of Capsule and Assistant belong to the broker and are not charged.
    const own = segments[2] === 'a' ? 4 : 3;
    let shared = 0;
    while (shared < segments.length - 1 && segments[shared] === last[shared]) shared += 1;
    last = segments.slice(0, -1);
    return segments.slice(Math.max(own, shared)).filter((segment) => segment !== '').length;
  };
}

import { S3Error } from '../upstream/errors.ts';

/** Why a backup or a restore failed: one sentence about the reason and the remedy, without anything of a key. */
export class BackupError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'BackupError';
  }
}

/** The exit code of a copy that has made its point without some objects: to repeat it at once is of no use. Node has no such code. */
export const INCOMPLETE = 20;

/** The point was made, and lacks some objects. */
export class IncompletePointError extends BackupError {
  constructor(message: string) {
    super(message);
    this.name = 'IncompletePointError';
  }
}

/** A point that cannot be read; others may be intact. */
export class DamagedPointError extends BackupError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'DamagedPointError';
  }
}

/** The identity does not open the point, or its beginning is damaged. */
export function unopenedPoint(name: string, cause: unknown): DamagedPointError {
  return new DamagedPointError(
    `the point ${name} cannot be opened: give BACKUP_IDENTITY_FILE the identity that it was made with, or remove the point from the backup where it is damaged`,
    { cause },
  );
}

export function damagedPoint(name: string, cause?: unknown): DamagedPointError {
  return new DamagedPointError(
    `the point ${name} is damaged or cut short: take another time, with --at, or remove it from the backup where it is the newest`,
    { cause },
  );
}

/** A record of an upload that cannot be read, so that nobody knows what to abort. */
export function damagedRecord(key: string, cause: unknown): BackupError {
  return new BackupError(
    `${key}, which records an upload that was being completed, is damaged: remove it, and look for files of that upload where the S3 server stores objects as files`,
    { cause },
  );
}

/** A stored content differs from its entry; others of the point may be intact. */
export class DamagedContentError extends BackupError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'DamagedContentError';
  }
}

/** The server of the Space's bucket takes no such object; it may take all others. */
export class RefusedObjectError extends BackupError {
  readonly code: string;

  constructor(code: string, options?: { cause?: unknown }) {
    super(`the server of the Space's bucket refuses an object (${code})`, options);
    this.name = 'RefusedObjectError';
    this.code = code;
  }
}

/** The server of the Space's bucket failed while an object was stored there, which may be due to that object. */
export class StoringError extends S3Error {
  override readonly cause: S3Error;

  constructor(cause: S3Error) {
    super(cause.kind, cause.status, cause.code);
    this.cause = cause;
  }
}

/** The Space's bucket has an object in its list that its server does not return, or not with its state. */
export class UnreadableError extends BackupError {
  constructor(key: string, options?: { cause?: unknown }) {
    super(
      `the server of the Space's bucket lists ${key}, and does not return it with entity tag, length and time: repair it there`,
      options,
    );
    this.name = 'UnreadableError';
  }
}

/** The backup's server failed, with whatever status: it says nothing of the object that was to be stored there. */
export class DestinationError extends S3Error {
  override readonly cause: S3Error;

  constructor(cause: S3Error) {
    super(cause.kind, cause.status, cause.code);
    this.cause = cause;
  }
}

/** The command line is wrong. */
export class UsageError extends Error {}

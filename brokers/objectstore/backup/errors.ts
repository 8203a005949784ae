/** Why a backup or a restore failed: one sentence about the reason and the remedy, without anything of a key. */
export class BackupError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'BackupError';
  }
}

/** A point that cannot be read; others may be intact. */
export class DamagedPointError extends BackupError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'DamagedPointError';
  }
}

/** A stored content differs from its entry; others of the point may be intact. */
export class DamagedContentError extends BackupError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'DamagedContentError';
  }
}

/** The command line is wrong. */
export class UsageError extends Error {}

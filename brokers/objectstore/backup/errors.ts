/** Why a backup or a restore was not made: one sentence that says what is wrong and what to do, and nothing of its keys. */
export class BackupError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'BackupError';
  }
}

/** A point that cannot be read; others may be whole. */
export class DamagedPointError extends BackupError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'DamagedPointError';
  }
}

/** A stored content that is not what its point says; the others of that point may be whole. */
export class DamagedContentError extends BackupError {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'DamagedContentError';
  }
}

/** The command was not given as it must be. */
export class UsageError extends Error {}

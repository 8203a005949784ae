import { readFileSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';

export interface StepState {
  readonly title: string;
  readonly depth: number;
  readonly started: number;
  ended: number | undefined;
  outcome: 'running' | 'done' | 'failed';
  note: string;
  log: string | undefined;
  error: unknown;
}

export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

interface Renderer {
  started(step: StepState, all: readonly StepState[]): void;
  ended(step: StepState, all: readonly StepState[]): void;
  close(all: readonly StepState[]): void;
}

const TAIL_LINES = 20;
const REDRAW_MS = 200;

/** A live tree on a terminal; elsewhere one line when a step ends, and one when it starts at the outermost level. */
export function createRenderer(output: Output, now: () => number): Renderer {
  return output.isTTY === true ? live(output, now) : plain(output, now);
}

function plain(output: Output, now: () => number): Renderer {
  const reported = new Set<unknown>();
  return {
    started(step) {
      output.write(`${indent(step)}${step.title} …\n`);
    },
    ended(step) {
      output.write(`${line(step, now())}\n`);
      if (step.outcome === 'failed') output.write(failure(step, reported));
    },
    close() {},
  };
}

function live(output: Output, now: () => number): Renderer {
  const reported = new Set<unknown>();
  let drawn = 0;
  let printed = 0;
  let timer: NodeJS.Timeout | undefined;

  /** Steps of whole ended families scroll away as ordinary lines; the rest is drawn again and again. */
  const draw = (all: readonly StepState[], above = '') => {
    const columns = output.columns ?? 80;
    const settled = settledCount(all, printed);
    const fixed = all.slice(printed, settled).map((step) => `${cut(line(step, now()), columns)}\n`);
    const moving = all.slice(settled).map((step) => `${cut(line(step, now()), columns)}\n`);
    const erase = drawn > 0 ? `\u001b[${drawn}A\u001b[J` : '';
    output.write(erase + fixed.join('') + above + moving.join(''));
    printed = settled;
    drawn = moving.length;
    if (moving.length === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };

  return {
    started(_step, all) {
      draw(all);
      timer ??= setInterval(() => draw(all), REDRAW_MS).unref();
    },
    ended(step, all) {
      draw(all, step.outcome === 'failed' ? failure(step, reported) : '');
    },
    close(all) {
      draw(all);
      clearInterval(timer);
    },
  };
}

/** How many steps from the front will never change again: outermost steps that ended, with all that is inside them. */
function settledCount(all: readonly StepState[], from: number): number {
  let index = from;
  while (index < all.length) {
    let end = index + 1;
    while (end < all.length && (all[end]?.depth ?? 0) > 0) end += 1;
    if (all.slice(index, end).some((step) => step.outcome === 'running')) return index;
    index = end;
  }
  return index;
}

const MARKS = { running: '…', done: '✓', failed: '✗' } as const;

function line(step: StepState, now: number): string {
  const note = step.note === '' ? '' : ` · ${step.note}`;
  return `${indent(step)}${MARKS[step.outcome]} ${step.title} ${elapsed((step.ended ?? now) - step.started)}${note}`;
}

const indent = (step: StepState) => '  '.repeat(step.depth);

const cut = (text: string, columns: number) =>
  text.length < columns ? text : `${text.slice(0, columns - 2)}…`;

/** `0.4 s`, `12.0 s`, `3 min 05 s`. */
export function elapsed(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, '0')} s`;
}

/** Cause and end of the log, once: the steps around a failed one fail with the same error and have nothing to add. */
function failure(step: StepState, reported: Set<unknown>): string {
  const pad = `${indent(step)}  `;
  if (reported.has(step.error)) return '';
  reported.add(step.error);
  const lines = causes(step.error);
  const tail = step.log === undefined ? [] : tailOf(step.log);
  if (tail.length > 0) lines.push(`the end of ${step.log}:`, ...tail.map((text) => `  ${text}`));
  return lines.map((text) => `${pad}${text}\n`).join('');
}

function causes(error: unknown): string[] {
  const lines: string[] = [];
  for (let at: unknown = error; at !== undefined && lines.length < 20; ) {
    const text = at instanceof Error ? at.message : String(at);
    lines.push(
      ...text.split('\n').map((part, index) => (lines.length === 0 || index > 0 ? part : `because: ${part}`)),
    );
    at = at instanceof Error ? at.cause : undefined;
  }
  return lines;
}

function tailOf(file: string): string[] {
  try {
    const lines = stripVTControlCharacters(readFileSync(file, 'utf8')).trimEnd().split('\n');
    return lines.slice(-TAIL_LINES).filter((text) => text !== '');
  } catch {
    return []; // there is no log yet: the cause has to do
  }
}

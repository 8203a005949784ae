/** The name of a point is the start of its run, so that names sort like times. */
export function pointName(started: Date): string {
  return started.toISOString().replaceAll(/[-:.]/g, '');
}

/** The start of the run; undefined if the text is not the name of a point. */
export function startedOf(name: string): Date | undefined {
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/.exec(name);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second, ms] = match;
  const time = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/** The name of a point: when its run started, so that names sort as times do. */
export function pointName(started: Date): string {
  return started.toISOString().replaceAll(/[-:.]/g, '');
}

/** When the run started; undefined for what is no name of a point. */
export function startedOf(name: string): Date | undefined {
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z$/.exec(name);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second, ms] = match;
  const time = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
  return Number.isNaN(time.getTime()) ? undefined : time;
}

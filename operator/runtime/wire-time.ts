/** A moment as Kubernetes writes a `MicroTime`. */
export function wireMicroTime(date = new Date()): string {
  return date.toISOString().replace('Z', '000Z');
}

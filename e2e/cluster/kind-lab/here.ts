/** Prints the traces of the namespaces that it runs in: see `tracesInside` of lab.ts. */
import { machineTraces } from './traces.ts';

console.log(JSON.stringify([...machineTraces()]));

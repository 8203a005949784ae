/** Prints the traces of the namespaces in which it runs: see `tracesInside` in lab.ts. */
import { machineTraces } from './traces.ts';

console.log(JSON.stringify([...machineTraces()]));

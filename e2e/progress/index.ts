export type { Step, StepSummary, Steps } from './steps.ts';
export { createSteps } from './steps.ts';

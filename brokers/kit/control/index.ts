export { type ControlOptions, createControlApp, type Handlers } from './app.ts';
export { type Authorities, type Caller, createAuthorities } from './authorities.ts';
export { type Contract, describe, operationsOf } from './contract.ts';
export { loadDocument } from './document.ts';
export { openApiDocument } from './openapi.ts';
export { bearer, errorAnswers, jsonContent, openApiFrame, schemaOf } from './openapi-parts.ts';
export { id, traceId } from './schemas.ts';

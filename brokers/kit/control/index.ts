export { type ControlOptions, createControlApp, type Handlers } from './app.ts';
export {
  type Authorities,
  type Caller,
  capsuleAuthority,
  observerAuthority,
  provisionerAuthority,
} from './authorities.ts';
export { loadDocument } from './document.ts';

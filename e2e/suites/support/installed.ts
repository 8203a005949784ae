/** What `setup.ts` hands to every suite. */
export interface Installed {
  readonly cluster: string;
  readonly kubectl: string;
  readonly kubeconfig: string;
  readonly space: string;
  readonly namespace: string;
  /** Reference of the example Assistant's image on this cluster. */
  readonly image: string;
}

declare module 'vitest' {
  export interface ProvidedContext {
    installed: Installed;
  }
}

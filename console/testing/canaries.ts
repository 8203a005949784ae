/** What a console holds for as long as it runs; its heap has it, and nothing else may. */
export const HELD = ['account', 'sessionKeys', 'observer', 'client', 'tlsKey'] as const;
/** What it is given for one request, or what a broker that was taken over would have it show. */
const PASSING = ['broker', 'person', 'principal', 'token', 'input'] as const;
/** What a test puts into a browser's history and storage itself, so that it is seen whether a search there finds anything. */
const CONTROL = 'control';

export type Whose = (typeof HELD)[number] | (typeof PASSING)[number] | typeof CONTROL;
export type Canaries = Readonly<Record<Whose, string>>;

/** Places that a person, or who comes after them, could find a text in; `profile` is what a browser leaves on the disk. */
export const PLACES = ['response', 'history', 'storage', 'profile', 'log', 'heap'] as const;
export type Place = (typeof PLACES)[number];
export type Found = Record<Place, number>;

/** The text as it is, and as what it could have become on its way. */
function formsOf(text: string): readonly string[] {
  const bytes = Buffer.from(text);
  const encoded = [
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ];
  return [...new Set([text, ...encoded])];
}

/** Looks for canaries, and counts in how many texts of a place each was. */
export class Lookout {
  readonly found: Readonly<Record<Whose, Found>>;
  readonly #forms: readonly (readonly [Whose, readonly string[]])[];
  readonly #longest: number;

  constructor(canaries: Canaries) {
    const whose = Object.keys(canaries) as Whose[];
    const none = () => Object.fromEntries(PLACES.map((place) => [place, 0])) as Found;
    this.found = Object.fromEntries(whose.map((one) => [one, none()])) as Record<Whose, Found>;
    this.#forms = whose.map((one) => [one, formsOf(canaries[one])]);
    this.#longest = Math.max(...this.#forms.flatMap(([, forms]) => forms.map(({ length }) => length)));
  }

  look(place: Place, text: string): void {
    for (const [whose, forms] of this.#forms)
      if (forms.some((form) => text.includes(form))) this.found[whose][place] += 1;
  }

  /** For a text that comes in pieces: a canary may be in two of them. */
  pieces(place: Place): (piece: string) => void {
    let rest = '';
    return (piece) => {
      this.look(place, rest + piece);
      rest = (rest + piece).slice(-this.#longest);
    };
  }
}

/** What was found where it may not be: what a console holds is in its heap, and a test's own control where the test put it. */
export const leaksIn = (found: Readonly<Record<Whose, Found>>): number =>
  Object.entries(found).reduce((sum, [whose, places]) => {
    const mayBe: readonly Place[] = HELD.some((one) => one === whose)
      ? ['heap']
      : whose === CONTROL
        ? ['response', 'history', 'storage', 'profile']
        : [];
    return sum + PLACES.reduce((all, place) => all + (mayBe.includes(place) ? 0 : places[place]), 0);
  }, 0);

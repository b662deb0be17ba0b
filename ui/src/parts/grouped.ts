/** Group items by a name, keeping their order. */
export function grouped<T>(things: T[], name: (thing: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const thing of things) {
    const own = found.get(name(thing));
    if (own) own.push(thing);
    else found.set(name(thing), [thing]);
  }
  return found;
}

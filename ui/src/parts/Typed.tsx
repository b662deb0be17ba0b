/** A text field of a filter, applied when typing pauses or on Enter. */
import { useEffect, useState } from "react";

const PAUSE = 350;

interface Props {
  label: string;
  hint: string;
  value: string;
  apply: (text: string) => void;
}

export function Typed({ label, hint, value, apply }: Props) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => apply(text), PAUSE);
    return () => clearTimeout(timer);
  }, [text]); // eslint-disable-line react-hooks/exhaustive-deps
  return (
    <input
      type="text"
      aria-label={label}
      placeholder={hint}
      value={text}
      onChange={(event) => setText(event.target.value)}
      onKeyDown={(event) => event.key === "Enter" && text !== value && apply(text)}
    />
  );
}

/** A change of a run: afterwards everything about it is read again. */
import { useMutation, useQueryClient } from "@tanstack/react-query";

export function useSteer(id: string, act: () => Promise<unknown>, done?: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["run", id] });
      done?.();
    },
  });
}

/** A mutation of a run that invalidates all queries about the run. */
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

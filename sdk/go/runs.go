package windlass

import (
	"context"
	"time"

	"github.com/windlass/windlass/sdk/go/internal/loop"
)

// Wait waits until a run has ended, and returns it. It polls at growing intervals, from 0.1 to 2 seconds. If the
// context ends first, Wait returns its error; the run continues.
func (s *RunsService) Wait(ctx context.Context, runID string) (*RunDetail, error) {
	for pause := 100 * time.Millisecond; ; pause = min(pause*3/2, 2*time.Second) {
		run, err := s.Get(ctx, runID)
		if err != nil || run.FinishedAt != nil {
			return run, err
		}
		if !loop.Sleep(ctx, pause) {
			return run, ctx.Err()
		}
	}
}

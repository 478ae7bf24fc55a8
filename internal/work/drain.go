package work

import (
	"context"
	"math"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

// allActs is more than all the effects that can be on their way.
const allActs = math.MaxInt64

// stops refuses what would begin in a daemon that stops.
func stops() *operation.Refusal {
	return operation.Refuse(operation.StoreDegraded, "this daemon stops, and has done nothing; the next one takes the identical call").Retrying(fault.AfterWait)
}

// act is begun by each effect that changes files in this process. It waits while a daemon that hands over drains.
func (s *Service) act(ctx context.Context) (leave func(), err error) {
	if !s.acts.TryAcquire(1) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		go func() {
			select {
			case <-s.quit:
				end(stops())
			case <-ctx.Done():
			}
		}()
		if s.acts.Acquire(ctx, 1) != nil {
			return nil, context.Cause(ctx)
		}
	}
	return func() { s.acts.Release(1) }, nil
}

// Drain waits for the end of the effects that change files, and lets no other one begin: after it another process may carry out
// what is recorded as begun. When ctx is done first, nothing has changed. A Service that has drained can only be stopped.
func (s *Service) Drain(ctx context.Context) error {
	if err := s.acts.Acquire(ctx, allActs); err != nil {
		return fault.New(fault.Busy, "work-running").Saying("a change of files is still being carried out").
			Hinting("wait until it has ended, then repeat the command; `mcpx operation list` shows it").Retrying(fault.AfterWait).Because(err)
	}
	return nil
}

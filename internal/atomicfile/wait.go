package atomicfile

import (
	"context"
	"os"
)

// WaitLock takes the lock on the file at path like TryLock, and waits for a holder to give it back until ctx is done.
// The wait is in the kernel: the lock is there the moment the holder releases it or dies.
func WaitLock(ctx context.Context, path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	got := make(chan struct{})
	go func() {
		defer close(got)
		err = lockWait(f)
	}()
	select {
	case <-got:
		if err != nil {
			_ = f.Close() // it was only opened for the lock
			return nil, err
		}
		return &Lock{f: f}, nil
	case <-ctx.Done():
		// The kernel cannot be told to stop waiting: the lock is given back when it comes.
		go func() {
			<-got
			_ = f.Close()
		}()
		return nil, context.Cause(ctx)
	}
}

package atomicfile

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestWaitLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancelCause(t.Context())
	gone := errors.New("the caller left")
	leave(gone)
	if _, err := WaitLock(left, path); !errors.Is(err, gone) {
		t.Fatalf("waiting with a context that is over: %v, want its cause", err)
	}

	got := make(chan error, 1)
	go func() {
		lock, err := WaitLock(t.Context(), path)
		if err == nil {
			err = lock.Release()
		}
		got <- err
	}()
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatalf("after the release: %v", err)
	}
}

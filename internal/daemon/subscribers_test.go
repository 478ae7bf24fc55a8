package daemon

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// TestRT138Subscribers: RT-138. Who was away for 10,000 events, and is cut off again and again, gets each once and in order;
// so does who reads nothing at all while they come. Neither holds up the daemon; that its calls are not slowed by more than
// a tenth is measured by the scenario subscriber of make bench.
func TestRT138Subscribers(t *testing.T) {
	const batches, batch = 40, 250
	c := config(t)
	d := run(t, c)
	grow := func() time.Duration {
		began := time.Now()
		for range batches / 2 {
			err := d.db.Change(t.Context(), func(tx store.Tx) error {
				for n := range batch {
					_, err := tx.AppendEvent(t.Context(), event.Draft{
						At: time.Now(), Kind: event.ActivityStatus, Actor: event.Actor{Principal: "owner"}, Summary: fmt.Sprint("claims status: ", n),
					})
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	}
	all := func() (seqs []uint64) {
		err := api.NewClient(c.Paths.Socket()).Events(t.Context(), api.EventsQuery{Kind: "activity"}, func(e event.Event) error { seqs = append(seqs, e.Seq); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return seqs
	}
	alone := grow()

	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	read, connected := make(chan struct{}), make(chan struct{})
	var late []uint64
	slow := make(chan error, 1)
	go func() {
		slow <- api.NewClient(c.Paths.Socket()).Events(ctx, api.EventsQuery{Kind: "activity", Follow: true}, func(e event.Event) error {
			if len(late) == 0 {
				close(connected)
				<-read
			}
			if late = append(late, e.Seq); len(late) == batches*batch {
				return fault.New(fault.Canceled, "canceled")
			}
			return nil
		})
	}()
	<-connected
	watched := grow()
	close(read)
	if err := <-slow; fault.From(err).Code != "canceled" {
		t.Errorf("who read nothing meanwhile: %v", err)
	}
	want := all()
	if len(want) != batches*batch || !slices.Equal(late, want) {
		t.Errorf("who read nothing meanwhile has %d events of %d", len(late), len(want))
	}

	var got []uint64
	for len(got) < len(want) {
		before := len(got)
		after := 0
		if before > 0 {
			after = int(got[before-1])
		}
		_ = api.NewClient(c.Paths.Socket()).Events(ctx, api.EventsQuery{Kind: "activity", After: after, Follow: true, Beat: true}, func(e event.Event) error {
			if got = append(got, e.Seq); len(got)-before >= 700 || len(got) == len(want) {
				return fault.New(fault.Canceled, "canceled") // and comes back
			}
			return nil
		})
		if len(got) == before {
			t.Fatalf("nothing comes after %d events", before)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("who comes back has %d events of %d, or in another order", len(got), len(want))
	}
	t.Logf("without a subscriber %v, with one that reads nothing %v", alone, watched)
	if watched > 10*alone { // the daemon waits for no subscriber: what is left is the noise of the machine
		t.Errorf("it took %v without a subscriber, and %v with one that reads nothing", alone, watched)
	}
}

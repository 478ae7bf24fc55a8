//go:build unix

package shim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// benchSink wakes the caller whose number stands in the answer, as a lane does.
type benchSink struct {
	waiters []chan struct{}
	closed  chan struct{}
}

func (s *benchSink) Deliver(in gateway.Inbound) {
	n := 0
	for _, c := range in.Body[len(`{"id":`):] {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int(c-'0')
	}
	s.waiters[n] <- struct{}{}
}
func (s *benchSink) Written(uint64)                 {}
func (s *benchSink) Failed(uint64, gateway.Failure) {}
func (s *benchSink) Overlong([]byte, int64)         {}
func (s *benchSink) Stderr([]byte)                  {}
func (s *benchSink) Closed(gateway.Exit)            { close(s.closed) }

// BenchmarkHop measures what the supervisor adds: direct children are the floor. Clients call one after the other,
// each waiting for its answer; one operation is one call.
func BenchmarkHop(b *testing.B) {
	for _, size := range []int{400, 64 << 10, 8 << 20} {
		for _, clients := range []int{1, 32} {
			for _, direct := range []bool{true, false} {
				mode := map[bool]string{false: "supervised", true: "direct"}[direct]
				b.Run(fmt.Sprintf("%dB/%dclients/%s", size, clients, mode), func(b *testing.B) {
					benchHop(b, size, clients, direct)
				})
			}
		}
	}
}

func benchHop(b *testing.B, size, clients int, direct bool) {
	r := newRig(b, nil)
	s := &benchSink{closed: make(chan struct{})}
	for range clients {
		s.waiters = append(s.waiters, make(chan struct{}, 1))
	}
	l, err := r.Open(context.Background(), r.request(direct), s)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		l.Close("done")
		<-s.closed
	}()
	kept, _ := l.(gateway.KeptLink)
	var refs atomic.Uint64
	call := func(n int, pad string) {
		body := fmt.Appendf(nil, `{"id":%d,"method":"mirror","p":"%s"}`, n, pad)
		ref := refs.Add(1)
		if err := l.Send(gateway.Outbound{Body: body, Kind: rpc.Request, Ref: ref, Tag: []byte("session and stream of the call")}); err != nil {
			b.Error(err)
			return
		}
		<-s.waiters[n]
		if kept != nil {
			kept.Done(ref)
		}
	}
	pad := strings.Repeat("x", size)
	call(0, pad)
	took := make([][]time.Duration, clients)
	b.ResetTimer()
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := n; i < b.N; i += clients {
				begin := time.Now()
				call(n, pad)
				took[n] = append(took[n], time.Since(begin))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	each := slices.Sorted(slices.Values(slices.Concat(took...)))
	b.ReportMetric(float64(each[len(each)/2]), "p50-ns") // less moved by what else the machine does than the mean
}

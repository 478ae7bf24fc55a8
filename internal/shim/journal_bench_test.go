package shim

import (
	"fmt"
	"strings"
	"testing"

	"mcpx/internal/rpc"
)

// BenchmarkJournal is what the journal adds to one call on the supervisor's CPU: both scans, and the entry's life.
func BenchmarkJournal(b *testing.B) {
	for _, size := range []int{400, 64 << 10} {
		b.Run(fmt.Sprint(size, "B"), func(b *testing.B) {
			j := newJournal(bounds{maxEntries, maxKept})
			pad := strings.Repeat("x", size)
			question := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"s1.17.42","method":"tools/call","params":{"text":%q}}`, pad)
			answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"s1.17.42","result":{"text":%q}}`, pad)
			tag := []byte("session and stream of the call")
			b.ReportAllocs()
			var n uint64
			for b.Loop() {
				n++
				id, method, ok := rpc.Ends(question)
				if !ok {
					b.Fatal("refused")
				}
				j.ask(0, n, id.Of(question), method.Of(question), tag, question)
				j.line(0, answer, true, true)
				j.done(0, n)
			}
		})
	}
}

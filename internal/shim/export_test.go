//go:build unix

package shim

import "mcpx/internal/gateway"

// Crash ends the connection of a supervised link as the death of its daemon would: in the middle of whatever is on its
// way, and without a word.
func Crash(l gateway.Link) {
	k := l.(*link)
	k.detaching.Store(true) // else it takes the supervisor for lost, and kills it
	_ = k.conn.Close()
	<-k.done
}

// SpeakProtocol makes this process speak other versions of the attach protocol.
func SpeakProtocol(from, to int) { spoken = protocols{from, to} }

// SpeakProtocol makes this daemon speak other versions of the attach protocol.
func (b *Backend) SpeakProtocol(from, to int) { b.speak = protocols{from, to} }

// Raced says that the race detector is in.
const Raced = raced

package rpc

// Kind is the kind of a JSON-RPC message.
type Kind uint8

// The kinds. The zero Kind is no message.
const (
	Request Kind = iota + 1
	Notification
	Result
	Error
)

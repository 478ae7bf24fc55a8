package rig

import (
	"encoding/base64"
	"strings"
)

// EncodeHeader is a value as a modern client puts it into Mcp-Name: plain when it is printable ASCII without outer
// spaces, else in the sentinel form.
func EncodeHeader(value string) string {
	plain := value == strings.TrimSpace(value) && !strings.HasPrefix(value, "=?base64?")
	for _, r := range value {
		plain = plain && r >= ' ' && r <= '~'
	}
	if plain {
		return value
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

package control

import (
	"fmt"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
)

// advice is what the person who owns a server may want to change about its sharing, from its package and from how
// often it runs now.
func advice(s catalog.Server, st gateway.ServerStatus) []string {
	a, ok := catalog.Advise(s)
	if !ok {
		return nil
	}
	if n := len(st.Lanes); n > 1 {
		return []string{fmt.Sprintf("it runs %d times; %s", n, a.Text)}
	}
	return []string{a.Text}
}

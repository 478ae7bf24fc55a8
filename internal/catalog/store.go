package catalog

import (
	"context"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// Reader reads the stored servers. It is part of the transaction port that package store joins.
type Reader interface {
	// Servers is one page of entries sorted by name. A page that is
	// shorter than the limit is the last one.
	Servers(ctx context.Context, p ListServers) ([]Server, error)
	// ServerByName finds an entry by its name or by one of its aliases. NotFound server-unknown.
	ServerByName(ctx context.Context, p ServerByName) (Server, error)
	// ServerByID finds an entry by its id. NotFound server-unknown.
	ServerByID(ctx context.Context, p ServerByID) (Server, error)
}

// Store reads and changes the stored servers. One name space holds names and aliases.
type Store interface {
	Reader
	// PutServer writes an entry whole, new or in place of the one with the same id. Conflict server-exists when
	// another entry has the name or one of the aliases.
	PutServer(ctx context.Context, p PutServer) error
	// DeleteServer removes an entry and frees its names. NotFound server-unknown.
	DeleteServer(ctx context.Context, p DeleteServer) error
}

// MaxServerPage bounds one page of Servers. An entry is at most some KiB, so a page stays below a few MiB.
const MaxServerPage = 500

// ListServers asks for the entries whose name sorts after After.
type ListServers struct {
	After string
	Limit int // 0 and everything above MaxServerPage is MaxServerPage
}

// PageLimit is the number of entries that the page may hold.
func (p ListServers) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxServerPage {
		return MaxServerPage
	}
	return p.Limit
}

// ServerByName asks for the entry that has this name or alias.
type ServerByName struct{ Name string }

// ServerByID asks for the entry that has this id.
type ServerByID struct{ ID string }

// PutServer carries the entry to write. Validate must have accepted it; times are cut to microseconds.
type PutServer struct{ Server Server }

// DeleteServer names the entry to remove.
type DeleteServer struct{ ID string }

// All reads every entry, page by page, sorted by name.
func All(ctx context.Context, r Reader) ([]Server, error) {
	return page.All(MaxServerPage, func(last *Server) ([]Server, error) {
		var list ListServers
		if last != nil {
			list.After = last.Name
		}
		return r.Servers(ctx, list)
	})
}

// Unknown is the error of a name or id that no entry has.
func Unknown(name string) *fault.Error {
	return fault.New(fault.NotFound, "server-unknown").
		Saying("no server is named %q", name).
		Hinting("run `mcpx server list` to see the names")
}

// Taken is the error of a name or alias that another entry has.
func Taken(name, owner string) *fault.Error {
	e := fault.New(fault.Conflict, "server-exists")
	if name == owner {
		return e.Saying("a server named %q exists", name).
			Hinting("choose another name, or change it with `mcpx server edit %s`", owner)
	}
	return e.Saying("%q is an alias of the server %q", name, owner).
		Hinting("choose another name, or remove the alias with `mcpx server edit %s`", owner)
}

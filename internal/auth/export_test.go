package auth

// Server is the scope that the use of one server needs.
func Server(name string) Scope { return ServersUse + ":" + Scope(name) }

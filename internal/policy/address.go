package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/lazyregexp"
)

var hostPort = lazyregexp.New(`(\[[0-9A-Fa-f:.%]+\]|[0-9A-Za-z_.\-]*):([0-9]+)`)

// reachesDaemon tells that words name an address of the daemon: host:port in one word, or host and port in two.
func (s *script) reachesDaemon(words []string) bool {
	for _, address := range s.place.Daemon.Addresses {
		i := strings.LastIndexByte(address, ':')
		if i < 0 {
			continue
		}
		host, port := strings.Trim(address[:i], "[]"), address[i+1:]
		local := func(name string) bool {
			name = strings.Trim(name, "[]")
			return strings.EqualFold(name, host) || name == "" || isLoopback(name)
		}
		alone := slices.Contains(words, port)
		for _, word := range words {
			if alone && word != "" && local(word) {
				return true
			}
			for _, m := range hostPort().FindAllStringSubmatch(word, -1) {
				if samePort(m[2], port) && local(m[1]) {
					return true
				}
			}
			if strings.Contains(word, ":"+port+":") { // --connect-to ::127.0.0.1:9411, --resolve x:9411:127.0.0.1
				if slices.ContainsFunc(strings.Split(word, ":"), isLoopback) {
					return true
				}
			}
		}
	}
	return false
}

func samePort(a, b string) bool {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	return errX == nil && errY == nil && x == y
}

// isLoopback tells that a host is this machine, in any of the ways in which programs read addresses.
func isLoopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "ip6-localhost" || host == "localhost.localdomain" {
		return true
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	return oldLoopback(host)
}

// oldLoopback reads the old forms of IPv4 addresses: 127.1, 0x7f000001, 0177.0.0.1, 0.
func oldLoopback(host string) bool {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return false
	}
	var value uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil || part == "" || strings.Contains(part, "_") {
			return false
		}
		if i < len(parts)-1 {
			if n > 255 {
				return false
			}
			value |= n << (24 - 8*i)
			continue
		}
		value |= n
	}
	return value>>24 == 127 || value == 0
}

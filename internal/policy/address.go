package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// reachesDaemon tells that words name an address of the daemon: host:port in one word, or host and port in two.
func (s *script) reachesDaemon(words []string) bool {
	for _, address := range s.place.Daemon.Addresses {
		host, port, ok := cutLast(address, ':')
		if !ok {
			continue
		}
		host = strings.Trim(host, "[]")
		local := func(name string) bool {
			name = strings.Trim(name, "[]")
			return strings.EqualFold(name, host) || isLoopback(name)
		}
		if slices.ContainsFunc(words, func(word string) bool { return samePort(word, port) }) && slices.ContainsFunc(words, local) {
			return true
		}
		for _, word := range words {
			for _, named := range hostsAtPort(word, port) {
				if named == "" || local(named) {
					return true
				}
			}
			if strings.Contains(word, ":"+port+":") && slices.ContainsFunc(strings.Split(word, ":"), local) { // --resolve x:9411:127.0.0.1
				return true
			}
		}
	}
	return false
}

// hostsAtPort gives what stands before ":port" in a word.
func hostsAtPort(word, port string) []string {
	var hosts []string
	for i := range len(word) {
		if word[i] != ':' {
			continue
		}
		digits := word[i+1:]
		digits = digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
		if !samePort(digits, port) {
			continue
		}
		before := word[:i]
		if strings.HasSuffix(before, "]") {
			hosts = append(hosts, before[strings.LastIndexByte(before, '[')+1:len(before)-1])
			continue
		}
		start := strings.LastIndexFunc(before, func(r rune) bool {
			return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		hosts = append(hosts, before[start+1:])
	}
	return hosts
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
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

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/gate"
)

const notLinux = "this system does not tell without a program of its own"

// connectionsTo lists the ports of the hub that somebody listens on or is connected to: proc_net(5).
func connectionsTo(hub gate.Hub) gate.Fact[[]string] {
	if runtime.GOOS != "linux" {
		return gate.Missing[[]string](notLinux)
	}
	counts := map[int]int{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil && table == "/proc/net/tcp" {
			return gate.Missing[[]string](table + " cannot be read")
		}
		for row := range strings.Lines(string(data)) {
			fields := strings.Fields(row)
			if len(fields) < 4 || fields[3] == "06" { // TIME_WAIT: over
				continue
			}
			for _, end := range fields[1:3] {
				_, hex, _ := strings.Cut(end, ":")
				port, err := strconv.ParseUint(hex, 16, 16)
				if err == nil && slices.Contains(hub.Ports, int(port)) {
					counts[int(port)]++
					break
				}
			}
		}
	}
	var all []string
	for _, port := range hub.Ports {
		if counts[port] > 0 {
			all = append(all, fmt.Sprintf("port %d: %d", port, counts[port]))
		}
	}
	return gate.Known(all)
}

// processesOf lists the processes whose program is the hub's, without this one. Those of other users cannot be told.
func processesOf(hub gate.Hub) gate.Fact[[]string] {
	if runtime.GOOS != "linux" {
		return gate.Missing[[]string](notLinux)
	}
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil || len(links) == 0 {
		return gate.Missing[[]string]("/proc cannot be read")
	}
	var all []string
	for _, link := range links {
		pid := filepath.Base(filepath.Dir(link))
		exe, err := os.Readlink(link)
		if err == nil && pid != strconv.Itoa(os.Getpid()) && hub.IsProgram(strings.TrimSuffix(exe, " (deleted)")) {
			all = append(all, "pid "+pid+" "+exe)
		}
	}
	return gate.Known(all)
}

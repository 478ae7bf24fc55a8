//go:build !linux

package rig

import "os"

// Survivors cannot look outside Linux: there is no process table in files.
func Survivors(string) []string { return nil }

// Naming cannot look outside Linux.
func Naming(string) map[int]string { return nil }

func endSurvivors(string) {}

// Alive cannot tell a zombie from a process here; it asks only whether the pid is known.
func Alive(pid int) bool {
	_, err := os.FindProcess(pid)
	return err == nil
}

// Descriptors is unknown outside Linux.
func Descriptors(int) int { return -1 }

// Opened is unknown outside Linux.
func Opened(int) []string { return nil }

// Process is what the system tells of one; outside Linux nothing.
type Process struct {
	State                  byte
	Parent, Group, Session int
}

// Look is unknown outside Linux.
func Look(int) Process { return Process{} }

// Memory is unknown outside Linux.
func Memory(int) (anonymous, proportional int64) { return -1, -1 }

// Written is unknown outside Linux.
func Written(int) int64 { return -1 }

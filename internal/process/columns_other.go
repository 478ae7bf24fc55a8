//go:build !linux && !darwin

package process

import "os"

// Columns is the width of a terminal; 0 where the system is not asked.
func Columns(*os.File) int { return 0 }

// Go at the same work, on one core: goroutines and channels.  Prints one line of JSON.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const ring = 1000

func cpu() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// answer times work, which must return expected, and prints the line.
func answer(operations, expected int, work func() int) {
	before, start := cpu(), time.Now()
	got := work()
	wall, used := time.Since(start).Seconds(), cpu()-before
	if got != expected {
		fmt.Fprintf(os.Stderr, "wrong result: %d instead of %d\n", got, expected)
		os.Exit(1)
	}
	fmt.Printf("{\"operations\": %d, \"wall\": %.9f, \"cpu\": %.9f}\n", operations, wall, used)
}

// hop passes numbers on, less one, until one is nought.
func hop(in <-chan int, out chan<- int, done chan<- int) {
	for number := range in {
		if number == 0 {
			done <- 1
			return
		}
		out <- number - 1
	}
}

// branch splits its leaves among ten goroutines and sends up the sum of their numbers.
func branch(up chan<- int, first, leaves int) {
	if leaves == 1 {
		up <- first
		return
	}
	results := make(chan int, 10)
	share := leaves / 10
	for i := 0; i < 10; i++ {
		go branch(results, first+i*share, share)
	}
	total := 0
	for i := 0; i < 10; i++ {
		total += <-results
	}
	up <- total
}

func main() {
	runtime.GOMAXPROCS(1)
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	switch os.Args[1] {
	case "ring":
		first, done := make(chan int, 1), make(chan int)
		in := first
		for i := 1; i < ring; i++ {
			out := make(chan int, 1)
			go hop(in, out, done)
			in = out
		}
		go hop(in, first, done)
		answer(n, 1, func() int { first <- n; return <-done })
	case "skynet":
		nodes := 0
		for level := n; level > 0; level /= 10 {
			nodes += level
		}
		up := make(chan int)
		answer(nodes, n*(n-1)/2, func() int { go branch(up, 0, n); return <-up })
	default:
		fmt.Fprintf(os.Stderr, "no such workload: %s\n", os.Args[1])
		os.Exit(2)
	}
}

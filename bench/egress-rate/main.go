// Sends GET requests at a constant rate, also while earlier ones are unanswered, and measures each from when it was due. So a slow
// server gets no fewer requests, and waiting for a connection counts. The first second, in which connections are opened, is
// left out. Prints the milliseconds of each other request, and how many seconds these took together.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The arguments are the URL, requests a second, seconds, and headers as `Name: value`.
func main() {
	url, headers := os.Args[1], os.Args[4:]
	rate, err := strconv.Atoi(os.Args[2])
	check(err)
	seconds, err := strconv.Atoi(os.Args[3])
	check(err)
	client := &http.Client{
		// One Assistant may have this many requests at once. A request that waits for a connection is measured with its wait.
		Transport:     &http.Transport{MaxConnsPerHost: 32, MaxIdleConnsPerHost: 32, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       30 * time.Second,
	}
	count := rate * (1 + seconds)
	took := make([]float64, count)
	var all sync.WaitGroup
	// nanosleep on a locked thread is exact to some 60 us, timers of the runtime only to 1 ms.
	runtime.LockOSThread()
	began := time.Now()
	for i := range count {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if wait := time.Until(due); wait > 0 {
			pause := syscall.NsecToTimespec(wait.Nanoseconds())
			_ = syscall.Nanosleep(&pause, nil)
		}
		all.Go(func() {
			request, err := http.NewRequest(http.MethodGet, url, nil)
			check(err)
			for _, header := range headers {
				name, value, _ := strings.Cut(header, ": ")
				if name == "Host" {
					request.Host = value
				}
				request.Header.Set(name, value)
			}
			response, err := client.Do(request)
			check(err)
			_, err = io.Copy(io.Discard, response.Body)
			check(err)
			check(response.Body.Close())
			if response.StatusCode != http.StatusOK {
				check(errors.New(response.Status))
			}
			took[i] = float64(time.Since(due).Nanoseconds()) / 1e6
		})
	}
	all.Wait()
	lasted := time.Since(began.Add(time.Second)).Seconds()
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"ms": took[rate:], "seconds": lasted}))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

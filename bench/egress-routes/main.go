// Reads lines "METHOD TARGET" and says for each which route Go's net/http would dispatch it to: its index among the
// patterns of the command line, -1 for none. The request goes through net/http's own parser and ServeMux.
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
)

func main() {
	hit := -1
	mux := http.NewServeMux()
	for index, pattern := range os.Args[1:] {
		mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) { hit = index })
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		hit = -1
		raw := strings.NewReader(in.Text() + " HTTP/1.1\r\nHost: api.bank.org\r\n\r\n")
		if request, err := http.ReadRequest(bufio.NewReader(raw)); err == nil {
			mux.ServeHTTP(httptest.NewRecorder(), request)
		}
		fmt.Fprintln(out, hit)
	}
}

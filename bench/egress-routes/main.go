// Reads lines "METHOD TARGET" and prints for each the pattern to which Go's net/http dispatches it and the value of its selector:
// the index among the patterns of the command line (-1 for none), a space, and the first value in hex. The request goes
// through net/http's own parser and ServeMux. The first argument is the name of the query parameter.
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
	hit, kind := -1, ""
	mux := http.NewServeMux()
	for index, pattern := range os.Args[2:] {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, request *http.Request) {
			hit, kind = index, request.URL.Query().Get(os.Args[1])
		})
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		hit, kind = -1, ""
		raw := strings.NewReader(in.Text() + " HTTP/1.1\r\nHost: api.bank.org\r\n\r\n")
		if request, err := http.ReadRequest(bufio.NewReader(raw)); err == nil {
			mux.ServeHTTP(httptest.NewRecorder(), request)
		}
		fmt.Fprintf(out, "%d %x\n", hit, kind)
	}
}

// Creates roles with Vault's PostgreSQL plugin and prints how long each took, for bench/db-broker.ts. It is only measured,
// and not part of any image.
//
// Standard input: {"url": "postgresql://…", "count": 100, "callers": 8}. Standard output: {"ms": […], "seconds": …}.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/vault/plugins/database/postgresql"
	dbplugin "github.com/hashicorp/vault/sdk/database/dbplugin/v5"
)

type order struct {
	URL     string `json:"url"`
	Count   int    `json:"count"`
	Callers int    `json:"callers"`
}

type result struct {
	Ms      []float64 `json:"ms"`
	Seconds float64   `json:"seconds"`
}

func main() {
	var given order
	check(json.NewDecoder(os.Stdin).Decode(&given))
	made, err := postgresql.New()
	check(err)
	database := made.(dbplugin.Database)
	ctx := context.Background()
	_, err = database.Initialize(ctx, dbplugin.InitializeRequest{
		Config: map[string]interface{}{
			"connection_url": given.URL,
			// The broker sends only SCRAM verifiers of passwords, so the plugin does the same.
			"password_authentication": "scram-sha-256",
		},
		VerifyConnection: true,
	})
	check(err)
	defer database.Close()

	answer := result{Ms: make([]float64, given.Count)}
	var next atomic.Int64
	var callers sync.WaitGroup
	started := time.Now()
	for range given.Callers {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for i := int(next.Add(1)) - 1; i < given.Count; i = int(next.Add(1)) - 1 {
				begun := time.Now()
				_, err := database.NewUser(ctx, dbplugin.NewUserRequest{
					UsernameConfig: dbplugin.UsernameMetadata{DisplayName: "bench", RoleName: "bench"},
					Statements: dbplugin.Statements{Commands: []string{
						`CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'`,
					}},
					CredentialType: dbplugin.CredentialTypePassword,
					Password:       "a-password-of-the-benchmark",
					Expiration:     time.Now().Add(time.Hour),
				})
				check(err)
				answer.Ms[i] = float64(time.Since(begun).Microseconds()) / 1000
			}
		}()
	}
	callers.Wait()
	answer.Seconds = time.Since(started).Seconds()
	check(json.NewEncoder(os.Stdout).Encode(answer))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

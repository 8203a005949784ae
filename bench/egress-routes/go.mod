module platform.space/bench/egress-routes

go 1.26

module platform.space/bench/egress-rate

go 1.26

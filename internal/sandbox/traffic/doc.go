// Package traffic is a network for tests that send packets: a namespace that plays the host, one that plays a machine outside it, and
// pods, with programs run, servers asked and transfers measured in each. All that it makes ends with the test.
package traffic

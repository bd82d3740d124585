/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of WRITEs or READs through one bottleneck, in virtual time: what the engine makes of loss, of long paths and
 * of company. The same question gets the same answer on every machine. */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include <stdbool.h>
#include <stdint.h>

enum { PATH_STREAMS = 8 };

struct path_case {
	double gbps, loss;   /* of the bottleneck; of each packet, both ways */
	uint64_t round_trip; /* ns, without queues */
	uint32_t queue;	     /* bytes that wait for the bottleneck: more are dropped; 0: as many as are on the path */
	uint64_t jitter;     /* ns: each packet comes so much later at most, so that packets overtake */
	double late; /* of each packet: it comes a tenth of a round trip later, so that many packets overtake it */
	uint32_t mtu, length, depth; /* bytes of a packet, bytes of a request, requests in the queue */
	uint32_t streams, tcps;	     /* of uroce; of TCP as RFC 9438 (CUBIC) has it, whose peers lose no ACK */
	bool reads;		     /* the requester reads what it else would write */
	bool is_uroce;		     /* the ends know that of each other */
	uint64_t duration;	     /* ns; the first quarter is not counted */
	uint64_t seed;
};

struct path_result {
	double goodput[PATH_STREAMS]; /* share of the bottleneck's rate: payload that has been completed */
	double total;
	double resent; /* packets that were sent again, for each that was sent */
	bool failed;
};

/* One stream of 64 KiB WRITEs at 10 Gb/s, without a duration. */
struct path_case path_usual(uint64_t round_trip, double loss);
struct path_result path_run(const struct path_case *c);
/* Jain's index: 1 if all have the same, 1/n if one has all. */
double path_fairness(const double *goodput, uint32_t count);

#endif

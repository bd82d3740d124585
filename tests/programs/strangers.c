// SPDX-License-Identifier: BSD-2-Clause
/* strangers ADDRESS OTHER [unmapped]: root at one address of this host, and another user at the other. They talk, by
 * UDP: neither maps anything of the other's or can reach its memory. Nor does the other user get at root's address, or
 * at its doors: names of sockets that root's processes would call are called in vain. unmapped: two users who are not
 * root, each in a user namespace of its own that maps nobody. Each sees itself and the other as user 65534. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "rc.h"

enum {
	SIZE = 65536,
	NOBODY = 65534,
	FIRST = 12345, /* and SECOND: the users that nobody maps */
	SECOND = 12346,
	ROUNDS = 50,
};

static bool unmapped;

static void become(uid_t uid)
{
	MUST(!setgid(uid) && !setuid(uid));
	if (unmapped && unshare(CLONE_NEWUSER)) {
		printf("no user namespace: %s\n", strerror(errno));
		exit(0);
	}
	MUST(!prctl(PR_SET_DUMPABLE, 1) && (!unmapped || geteuid() == NOBODY));
}

/* The GID index of an IPv4 address. */
static int index_of(const char *address)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	uint8_t want[16] = {[10] = 0xff, [11] = 0xff};
	union ibv_gid gid;
	int i = 0;

	MUST(inet_pton(AF_INET, address, want + 12) == 1);
	MUST(list && list[0] && (context = ibv_open_device(list[0])));
	while (!ibv_query_gid(context, 1, i, &gid) && memcmp(gid.raw, want, 16))
		i++;
	MUST(!memcmp(gid.raw, want, 16));
	ZERO(ibv_close_device(context));
	ibv_free_device_list(list);
	return i;
}

static void tell(struct rc *rc)
{
	char byte = 0;

	MUST(send(rc->tcp, "", 1, MSG_NOSIGNAL) == 1 && recv(rc->tcp, &byte, 1, 0) == 1);
}

/* Memory of uroce that is mapped here. */
static int count_memories(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	MUST(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:uroce-ring") || strstr(line, "memfd:uroce-share");
	fclose(f);
	return n;
}

/* No name of a socket of uroce's that the other user may connect to lets him in. */
static void try_doors(void)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[512];
	int tried = 0;

	MUST(f);
	while (fgets(line, sizeof(line), f)) {
		struct sockaddr_un a = {.sun_family = AF_UNIX};
		char *name = strstr(line, unmapped ? "@uroce/65534/local" : "@uroce/0/local");
		struct ucred who;
		socklen_t size, length = sizeof(who);
		char byte;
		int fd;

		if (!name)
			continue;
		name[strcspn(name, "\n")] = 0;
		memcpy(a.sun_path + 1, name + 1, strlen(name + 1));
		size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		MUST(fd >= 0);
		if (!connect(fd, (struct sockaddr *)&a, size) &&
		    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) && who.pid != getpid()) {
			MUST(recv(fd, &byte, 1, 0) <= 0); /* it hangs up, and says nothing */
			tried++;
		}
		close(fd);
	}
	fclose(f);
	MUST(tried > 0);
}

static void talk(struct rc *rc, int fd, int before)
{
	rc->tcp = fd;
	MUST(send(fd, &rc->me, sizeof(rc->me), 0) == sizeof(rc->me));
	MUST(recv(fd, &rc->peer, sizeof(rc->peer), MSG_WAITALL) == sizeof(rc->peer));
	rc_connect(rc);
	tell(rc);
	for (int i = 0; i < ROUNDS; i++) {
		int left = 2;

		rc_post_receive(rc, 0, 2048);
		tell(rc);
		rc_post(rc, IBV_WR_SEND, 4096, 0, 2048);
		while (left--)
			MUST(rc_poll(rc).status == IBV_WC_SUCCESS);
		rc_post(rc, IBV_WR_RDMA_WRITE, 4096, 8192, 8192);
		rc_expect(rc_poll(rc), IBV_WC_RDMA_WRITE);
		rc_post(rc, IBV_WR_RDMA_READ, 20480, 8192, 8192);
		rc_expect(rc_poll(rc), IBV_WC_RDMA_READ);
	}
	tell(rc);
	MUST(count_memories() == before);
}

/* Root's address cannot be used, even to talk to oneself. */
static void try_address(const char *root)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = 1};
	struct rc rc;

	rc_open(&rc, NULL, index_of(root), SIZE);
	attr.dest_qp_num = rc.me.qpn;
	attr.ah_attr = (struct ibv_ah_attr){
		.is_global = 1, .port_num = 1, .grh = {.dgid = rc.me.gid, .sgid_index = rc.gid_index, .hop_limit = 64}};
	MUST(ibv_modify_qp(rc.qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	printf("refused: %s\n", strerror(errno));
	rc_close(&rc);
}

static void be_another(const char *root, const char *own, int fd)
{
	int before;
	struct rc rc;

	become(unmapped ? SECOND : NOBODY);
	rc_open(&rc, NULL, index_of(own), SIZE);
	before = count_memories();
	talk(&rc, fd, before);
	try_doors();
	try_address(root);
	tell(&rc);
	exit(0);
}

int main(int argc, char **argv)
{
	int ends[2], status;
	struct rc rc;
	pid_t pid;

	unmapped = argc > 3 && !strcmp(argv[3], "unmapped");
	MUST(argc >= 3 && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	pid = fork();
	MUST(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_another(argv[1], argv[2], ends[1]);
	}
	close(ends[1]);
	if (unmapped)
		become(FIRST);
	rc_open(&rc, NULL, index_of(argv[1]), SIZE);
	talk(&rc, ends[0], count_memories());
	tell(&rc);
	MUST(waitpid(pid, &status, 0) == pid);
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return 0;
}

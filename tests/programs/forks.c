// SPDX-License-Identifier: BSD-2-Clause
/* forks: a process with two connected queue pairs forks in all the usual ways and goes on as if nothing had
 * happened; its children end, exec, and outlive the connection without disturbing it. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "rc.h"

static void traffic(struct rc *rc)
{
	for (int i = 0; i < 200; i++) {
		rc->memory[0] = i;
		rc_post(rc, IBV_WR_RDMA_WRITE, 0, 4096, 3000);
		rc_expect(rc_poll(rc), IBV_WC_RDMA_WRITE);
	}
}

static bool handlers_use_devices;

/* A handler of the program's own, around a fork. */
static void use_device(void)
{
	struct ibv_device **list = handlers_use_devices ? ibv_get_device_list(NULL) : NULL;

	if (list)
		MUST(!ibv_close_device(ibv_open_device(list[0])));
	ibv_free_device_list(list);
}

/* ThreadSanitizer ends a child that starts a thread, as uroce does with the first device. */
static void use_device_in_child(void)
{
	if (!dlsym(RTLD_DEFAULT, "__tsan_init"))
		use_device();
}

int main(void)
{
	struct rc a, b;
	pid_t child;
	int pipes[2];

	MUST(!pthread_atfork(use_device, use_device, use_device_in_child));
	rc_open(&a, NULL, 0, 8192);
	rc_open(&b, &a, 0, 8192);
	rc_connect_pair(&a, &b);
	traffic(&a);

	MUST((child = fork()) >= 0);
	if (!child)
		_exit(0);
	traffic(&a);
	reap(child, 0);
	printf("a child that ends at once: fine\n");

	MUST((child = fork()) >= 0);
	if (!child)
		exit(3); /* runs destructors and atexit handlers */
	traffic(&a);
	reap(child, 3 << 8);
	printf("a child that runs its exit handlers: fine\n");

	MUST((child = fork()) >= 0);
	if (!child) {
		execlp("true", "true", NULL);
		_exit(1);
	}
	reap(child, 0);
	traffic(&a);
	MUST(system("exit 5") == 5 << 8);
	traffic(&a);
	printf("exec and system(): fine\n");

	/* This one stays while the parent works and holds copies of all its memory. */
	MUST(!pipe(pipes));
	MUST((child = fork()) >= 0);
	if (!child) {
		char byte;

		close(pipes[1]);
		_exit(read(pipes[0], &byte, 1) != 0);
	}
	close(pipes[0]);
	traffic(&a);
	traffic(&b);
	close(pipes[1]);
	reap(child, 0);
	traffic(&a);
	printf("a child that stays: fine\n");

	/* A child that tears down what it inherited, as a C++ program's destructors would: whatever that
	 * returns, the parent's connection is not its own. */
	MUST((child = fork()) >= 0);
	if (!child) {
		ibv_destroy_qp(a.qp);
		ibv_dereg_mr(a.mr);
		ibv_close_device(a.context);
		_exit(0);
	}
	reap(child, 0);
	traffic(&a);
	printf("a child that destroys its copies: fine\n");

	/* And one that opens a device for itself. */
	MUST((child = fork()) >= 0);
	if (!child) {
		int count;
		struct ibv_device **list = ibv_get_device_list(&count);

		_exit(!list || !count);
	}
	reap(child, 0);
	traffic(&a);
	printf("a child that lists devices: fine\n");

	handlers_use_devices = true;
	MUST((child = fork()) >= 0);
	if (!child)
		_exit(0);
	reap(child, 0);
	traffic(&a);
	printf("a program whose handlers of fork() use devices: fine\n");
	return 0;
}

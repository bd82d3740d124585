/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32: the engines and the choice between them. */
#include <dlfcn.h>
#include <endian.h>
#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "wire/crc.h"

/* For buffers that the program may write to while they are sent: the new bytes are sent, and the race is the
 * program's. */
#define MAY_CHANGE __attribute__((no_sanitize("thread")))

crc_function *crc_best;
static const struct crc_engine *selected;

uint32_t crc_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (int i = 31; i >= 0; i--) {
		product ^= b & -(a >> i & 1);
		b = b >> 1 ^ (CRC_POLYNOMIAL & -(b & 1));
	}
	return product;
}

uint32_t crc_power(int64_t n)
{
	/* the polynomial is primitive: powers of x repeat after 2^32 - 1 */
	uint64_t exponent = n >= 0 ? (uint64_t)n % UINT32_MAX : UINT32_MAX - (uint64_t)-n % UINT32_MAX;
	uint32_t power = CRC_ONE, square = CRC_ONE >> 1;

	for (; exponent; exponent >>= 1) {
		if (exponent & 1)
			power = crc_multiply(power, square);
		square = crc_multiply(square, square);
	}
	return power;
}

void crc_multiples(uint32_t product[256], uint32_t by)
{
	product[0] = 0;
	for (uint32_t bit = 1; bit < 256; bit *= 2) {
		product[bit] = crc_multiply(bit, by);
		for (uint32_t b = 1; b < bit; b++)
			product[bit + b] = product[bit] ^ product[b];
	}
}

/* --- tables: eight bytes at a time. table[k][b] is b * x^(8 * (k + 1)). --- */

static uint32_t table[8][256];

static void crc_make_tables(void)
{
	for (uint32_t k = 0; k < 8; k++)
		crc_multiples(table[k], crc_power(8 * (k + 1)));
}

/* The CRC from register to register, without the inversions. */
MAY_CHANGE static uint32_t table_register(uint32_t r, const uint8_t *bytes, uint64_t n)
{
	for (; n >= 8; n -= 8, bytes += 8) {
		uint64_t w;

		memcpy(&w, bytes, 8);
		w = le64toh(w) ^ r;
		r = table[7][w & 255] ^ table[6][w >> 8 & 255] ^ table[5][w >> 16 & 255] ^ table[4][w >> 24 & 255] ^
		    table[3][w >> 32 & 255] ^ table[2][w >> 40 & 255] ^ table[1][w >> 48 & 255] ^ table[0][w >> 56];
	}
	while (n--)
		r = r >> 8 ^ table[0][(r ^ *bytes++) & 255];
	return r;
}

static uint32_t crc_table(uint32_t crc, const uint8_t *bytes, uint64_t n)
{
	return ~table_register(~crc, bytes, n);
}

static crc_function *find_table(void)
{
	return crc_table;
}

/* --- ISA-L: it selects its own variant by processor. Opened by dlopen(3), not linked: a program under the preload
 * library must start where ISA-L is not installed. --- */

static crc_function *find_isal(void)
{
	static crc_function *found;
	void *library;

	if (found)
		return found;
	library = dlopen("libisal.so.2", RTLD_LAZY | RTLD_LOCAL);
	return library ? found = (crc_function *)dlsym(library, "crc32_gzip_refl") : NULL;
}

#if defined(__x86_64__)

/* --- carry-less multiplication. A block of bits is equivalent to one that comes d bits later and is multiplied by x^d;
 * reduced modulo the polynomial, the product fits into the place of the later one: so blocks fold into each other until
 * one is left. A lane of 128 bits folds as two halves, the first of which is 64 bits further ahead. Bits are reflected,
 * so a carry-less product is one bit too low, which multiplies it by x. --- */

struct fold {
	__m128i by; /* factors of the first and the second half */
};
static struct fold fold_32, fold_128, fold_256, fold_512, fold_1024, fold_2048; /* named by the distance in bits */

static void make_fold(struct fold *f, int64_t distance)
{
	f->by = _mm_set_epi64x((int64_t)((uint64_t)crc_power(distance - 1) << 32),
			       (int64_t)((uint64_t)crc_power(distance + 64 - 1) << 32));
}

static void make_folds(void)
{
	make_fold(&fold_32, 32);
	make_fold(&fold_128, 128);
	make_fold(&fold_256, 256);
	make_fold(&fold_512, 512);
	make_fold(&fold_1024, 1024);
	make_fold(&fold_2048, 2048);
}

#define CLMUL128       MAY_CHANGE __attribute__((target("pclmul,avx")))
#define CLMUL256       MAY_CHANGE __attribute__((target("pclmul,avx2,vpclmulqdq")))
#define CLMUL256_LEAST 512 /* bytes below which 128 bits are as fast */
#define CLMUL512       MAY_CHANGE __attribute__((target("pclmul,avx,avx512f,vpclmulqdq")))

CLMUL128 static inline __m128i load_128(const uint8_t *bytes)
{
	return _mm_loadu_si128((const void *)bytes);
}

/* Folds `lane` into `later`. */
CLMUL128 static inline __m128i fold_lane(__m128i lane, __m128i by, __m128i later)
{
	__m128i first = _mm_clmulepi64_si128(lane, by, 0x00), second = _mm_clmulepi64_si128(lane, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(first, second), later);
}

/* Folds `lane` and the n < 16 bytes after it into one lane, which ends where these bytes end. At least 16 - n bytes
 * must precede them. */
CLMUL128 static inline __m128i fold_tail(__m128i lane, const uint8_t *bytes, uint64_t n)
{
	static const uint8_t none_some_none[48] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
						   0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
						   -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
	__m128i before = load_128(none_some_none + n), here = load_128(none_some_none + 16 + n);

	return fold_lane(_mm_shuffle_epi8(lane, before), fold_128.by,
			 _mm_blendv_epi8(_mm_shuffle_epi8(lane, here), load_128(bytes + n - 16), here));
}

/* The register after `lane` and n more bytes, with at least 16 bytes before them. The first half of the lane is folded
 * until 96 bits are left; the last 32 of those are at the place of the register. */
CLMUL128 static inline uint32_t fold_rest(__m128i lane, const uint8_t *bytes, uint64_t n)
{
	__m128i left;
	uint64_t first;

	for (; n >= 16; n -= 16, bytes += 16)
		lane = fold_lane(lane, fold_128.by, load_128(bytes));
	if (n)
		lane = fold_tail(lane, bytes, n);
	left = _mm_xor_si128(_mm_clmulepi64_si128(lane, fold_32.by, 0x00), _mm_slli_si128(_mm_srli_si128(lane, 8), 4));
	first = (uint64_t)_mm_cvtsi128_si64(_mm_srli_si128(left, 4));
	return (uint32_t)_mm_extract_epi32(left, 3) ^ table_register(0, (const uint8_t *)&first, sizeof(first));
}

CLMUL128 static uint32_t crc_clmul(uint32_t crc, const uint8_t *bytes, uint64_t n)
{
	__m128i lane[4];

	if (n < 16)
		return crc_table(crc, bytes, n);
	lane[0] = _mm_xor_si128(_mm_cvtsi32_si128((int)~crc), load_128(bytes));
	if (n < 64)
		return ~fold_rest(lane[0], bytes + 16, n - 16);

	for (int i = 1; i < 4; i++)
		lane[i] = load_128(bytes + 16 * i);
	for (n -= 64, bytes += 64; n >= 64; n -= 64, bytes += 64)
		for (int i = 0; i < 4; i++)
			lane[i] = fold_lane(lane[i], fold_512.by, load_128(bytes + 16 * i));
	for (int i = 0; i < 2; i++)
		lane[i + 2] = fold_lane(lane[i], fold_256.by, lane[i + 2]);
	lane[3] = fold_lane(lane[2], fold_128.by, lane[3]);
	return ~fold_rest(lane[3], bytes, n);
}

static crc_function *find_clmul(void)
{
	if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("avx"))
		return NULL;
	make_folds();
	return crc_clmul;
}

CLMUL256 static inline __m256i load_256(const uint8_t *bytes)
{
	return _mm256_loadu_si256((const void *)bytes);
}

CLMUL256 static inline __m256i fold_pair(__m256i pair, __m256i by, __m256i later)
{
	__m256i first = _mm256_clmulepi64_epi128(pair, by, 0x00), second = _mm256_clmulepi64_epi128(pair, by, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(first, second), later);
}

/* crc_clmul() with two lanes per register. */
CLMUL256 static uint32_t crc_clmul256(uint32_t crc, const uint8_t *bytes, uint64_t n)
{
	__m256i by = _mm256_broadcastsi128_si256(fold_256.by), far = _mm256_broadcastsi128_si256(fold_1024.by), pair[4];
	__m128i lane;

	if (n < CLMUL256_LEAST)
		return crc_clmul(crc, bytes, n);
	for (int i = 0; i < 4; i++)
		pair[i] = load_256(bytes + 32 * i);
	pair[0] = _mm256_xor_si256(pair[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)~crc)));
	for (n -= 128, bytes += 128; n >= 128; n -= 128, bytes += 128)
		for (int i = 0; i < 4; i++)
			pair[i] = fold_pair(pair[i], far, load_256(bytes + 32 * i));
	for (int i = 0; i < 2; i++)
		pair[i + 2] = fold_pair(pair[i], _mm256_broadcastsi128_si256(fold_512.by), pair[i + 2]);
	pair[3] = fold_pair(pair[2], by, pair[3]);
	for (; n >= 32; n -= 32, bytes += 32)
		pair[3] = fold_pair(pair[3], by, load_256(bytes));
	lane = fold_lane(_mm256_castsi256_si128(pair[3]), fold_128.by, _mm256_extracti128_si256(pair[3], 1));
	return ~fold_rest(lane, bytes, n);
}

static crc_function *find_clmul256(void)
{
	if (!find_clmul() || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("vpclmulqdq"))
		return NULL;
	return crc_clmul256;
}

CLMUL512 static inline __m512i fold_lanes(__m512i lanes, __m512i by, __m512i later)
{
	__m512i first = _mm512_clmulepi64_epi128(lanes, by, 0x00), second = _mm512_clmulepi64_epi128(lanes, by, 0x11);

	return _mm512_ternarylogic_epi64(first, second, later, 0x96); /* exclusive or of the three */
}

/* crc_clmul() with four lanes per register. */
CLMUL512 static uint32_t crc_clmul512(uint32_t crc, const uint8_t *bytes, uint64_t n)
{
	__m512i by = _mm512_broadcast_i32x4(fold_512.by), far = _mm512_broadcast_i32x4(fold_2048.by), lanes[4];
	__m128i lane;

	if (n < 256)
		return crc_clmul(crc, bytes, n);
	for (int i = 0; i < 4; i++)
		lanes[i] = _mm512_loadu_si512(bytes + 64 * i);
	lanes[0] = _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
	for (n -= 256, bytes += 256; n >= 256; n -= 256, bytes += 256)
		for (int i = 0; i < 4; i++)
			lanes[i] = fold_lanes(lanes[i], far, _mm512_loadu_si512(bytes + 64 * i));
	for (int i = 1; i < 4; i++)
		lanes[i] = fold_lanes(lanes[i - 1], by, lanes[i]);
	for (; n >= 64; n -= 64, bytes += 64)
		lanes[3] = fold_lanes(lanes[3], by, _mm512_loadu_si512(bytes));
	lane = fold_lane(_mm512_extracti32x4_epi32(lanes[3], 0), fold_128.by, _mm512_extracti32x4_epi32(lanes[3], 1));
	lane = fold_lane(lane, fold_128.by, _mm512_extracti32x4_epi32(lanes[3], 2));
	lane = fold_lane(lane, fold_128.by, _mm512_extracti32x4_epi32(lanes[3], 3));
	return ~fold_rest(lane, bytes, n);
}

static crc_function *find_clmul512(void)
{
	if (!find_clmul() || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("vpclmulqdq"))
		return NULL;
	return crc_clmul512;
}

/* Without AVX-512, ISA-L takes 128 bits at a time. */
static crc_function *find_isal512(void)
{
	return find_clmul512() ? find_isal() : NULL;
}

#elif defined(__aarch64__) && __BYTE_ORDER == __LITTLE_ENDIAN

/* --- the CRC instructions --- */

MAY_CHANGE __attribute__((target("+crc"))) static uint32_t crc_arm(uint32_t crc, const uint8_t *bytes, uint64_t n)
{
	crc = ~crc;
	for (; n >= 8; n -= 8, bytes += 8) {
		uint64_t w;

		memcpy(&w, bytes, 8);
		crc = __crc32d(crc, w);
	}
	while (n--)
		crc = __crc32b(crc, *bytes++);
	return ~crc;
}

static crc_function *find_arm(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32 ? crc_arm : NULL;
}
#endif

const struct crc_engine crc_engines[] = {
#if defined(__x86_64__)
	{"ISA-L with AVX-512", find_isal512},
	{"AVX-512 carry-less multiplication", find_clmul512},
	{"AVX2 carry-less multiplication", find_clmul256},
#endif
	{"ISA-L", find_isal},
#if defined(__x86_64__)
	{"carry-less multiplication", find_clmul},
#elif defined(__aarch64__) && __BYTE_ORDER == __LITTLE_ENDIAN
	{"CRC instructions", find_arm},
#endif
	{"tables", find_table},
};
const unsigned crc_engine_count = ARRAY_SIZE(crc_engines);

static void select_engine(void)
{
	crc_make_tables();
	for (selected = crc_engines; !crc_best; selected++)
		if ((crc_best = selected->find()))
			break;
}

const struct crc_engine *crc_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, select_engine);
	return selected;
}

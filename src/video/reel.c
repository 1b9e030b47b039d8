/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames are numbered by the times of their packets, so that none is decoded to be counted.
 */
#include "video/reel.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "video/video_wire.h"

/* The file is in memory, so pieces of it are copied once. */
enum { PIECE = 1 << 16 };

static const char no_memory[] = "needs more memory than this server gives one";

/* --- the file ---------------------------------------------------------------------------- */

static int reel_read(void *ctx, uint8_t *to, int n)
{
	struct reel_input *in = ctx;
	int64_t left = in->n - in->at;
	if (left <= 0)
		return AVERROR_EOF;
	n = (int)MIN(left, n);
	memcpy(to, in->p + in->at, (size_t)n);
	in->at += n;
	return n;
}

static int64_t reel_seek(void *ctx, int64_t to, int whence)
{
	struct reel_input *in = ctx;
	if (whence & AVSEEK_SIZE)
		return in->n;
	whence &= ~AVSEEK_FORCE;
	to += whence == SEEK_CUR ? in->at : whence == SEEK_END ? in->n : 0;
	if (to < 0)
		return AVERROR(EINVAL);
	in->at = to;
	return to;
}

/* A file that names other files gets none. */
static int reel_refuse(AVFormatContext *f, AVIOContext **pb, const char *url, int flags,
		       AVDictionary **options)
{
	return AVERROR(EPERM);
}

/* By its first bytes. No other demuxer is ever asked. */
static const AVInputFormat *reel_kind(const uint8_t *p, int64_t n)
{
	static const char *const boxes[] = {"ftyp", "moov", "mdat", "wide", "free", "skip"};
	if (n >= 4 && memcmp(p, "\x1a\x45\xdf\xa3", 4) == 0)
		return av_find_input_format("matroska");
	for (size_t i = 0; n >= 8 && i < sizeof boxes / sizeof boxes[0]; i++)
		if (memcmp(p + 4, boxes[i], 4) == 0)
			return av_find_input_format("mov");
	return NULL;
}

/* Decoders of sound are there only for those who want it. */
#define REEL_SIGHT "h264,hevc,vp8,vp9,libdav1d,libaom-av1,av1,mjpeg"
#define REEL_SOUND "aac,opus,libopus,vorbis,libvorbis,mp3float,mp3,flac,pcm_u8,pcm_s16le," \
	"pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be"

static const char *reel_open_file(struct reel *r, bool hears)
{
	const AVInputFormat *kind = reel_kind(r->in.p, r->in.n);
	if (!kind)
		return "is no MP4, WebM or Matroska file";
	AVFormatContext *f = r->format = avformat_alloc_context();
	uint8_t *piece = av_malloc(PIECE);
	if (!f || !piece)
		return no_memory;
	f->pb = avio_alloc_context(piece, PIECE, 0, &r->in, reel_read, NULL, reel_seek);
	f->flags |= AVFMT_FLAG_CUSTOM_IO;
	f->io_open = reel_refuse;
	f->codec_whitelist = av_strdup(hears ? REEL_SIGHT "," REEL_SOUND : REEL_SIGHT);
	if (!f->pb || !f->codec_whitelist)
		return no_memory;
	int error = avformat_open_input(&r->format, NULL, kind, NULL);
	if (error >= 0)
		error = avformat_find_stream_info(r->format, NULL);
	if (error == AVERROR(ENOMEM))
		return no_memory;
	return error < 0 ? "is broken: its beginning or its index cannot be read" : NULL;
}

/* --- the stream of pictures -------------------------------------------------------------- */

static const int32_t *reel_matrix(const AVStream *s)
{
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
	const AVPacketSideData *d = av_packet_side_data_get(
		s->codecpar->coded_side_data, s->codecpar->nb_coded_side_data,
		AV_PKT_DATA_DISPLAYMATRIX);
	return d && d->size >= 9 * sizeof(int32_t) ? (const int32_t *)d->data : NULL;
#else
	size_t n = 0;
	const uint8_t *p = av_stream_get_side_data(s, AV_PKT_DATA_DISPLAYMATRIX, &n);
	return p && n >= 9 * sizeof(int32_t) ? (const int32_t *)p : NULL;
#endif
}

/* A phone that was held upright says so beside the pixels. */
static int reel_turns(const AVStream *s)
{
	const int32_t *matrix = reel_matrix(s);
	double degrees = matrix ? -av_display_rotation_get(matrix) : 0;
	return isfinite(degrees) ? (int)lrint(degrees / 90) & 3 : 0;
}

/* A decoder of a stream. Returns the fault: `unknown` where the codec does not do. */
static const char *reel_open_codec(struct reel *r, const AVStream *s, const AVCodec *codec,
				   int64_t max_pixels, const char *unknown, AVCodecContext **out)
{
	AVCodecContext *c = *out = avcodec_alloc_context3(codec);
	if (!c || avcodec_parameters_to_context(c, s->codecpar) < 0)
		return no_memory;
	c->thread_count = 1; /* there are no others in here */
	c->pkt_timebase = s->time_base;
	if (max_pixels > 0)
		c->max_pixels = max_pixels;
	c->codec_whitelist = av_strdup(r->format->codec_whitelist);
	int error = avcodec_open2(c, codec, NULL);
	return error == AVERROR(ENOMEM) ? no_memory : error < 0 ? unknown : NULL;
}

static const char *reel_open_decoder(struct reel *r, int64_t max_pixels)
{
	static const char unknown[] = "is in none of the codecs that are read: H.264, HEVC, VP8, "
				      "VP9, AV1 and Motion JPEG";
	const AVCodec *codec = NULL;
	r->stream = av_find_best_stream(r->format, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
	if (r->stream == AVERROR_DECODER_NOT_FOUND)
		return unknown;
	if (r->stream < 0)
		return "has no pictures";
	const AVStream *s = r->format->streams[r->stream];
	if (s->disposition & AV_DISPOSITION_ATTACHED_PIC)
		return "has no pictures but a cover";
	const char *fault = reel_open_codec(r, s, codec, max_pixels, unknown, &r->decoder);
	if (fault)
		return fault;
	const AVRational rate = s->avg_frame_rate;
	r->turns = reel_turns(s);
	bool is_sideways = r->turns & 1;
	r->width = is_sideways ? s->codecpar->height : s->codecpar->width;
	r->height = is_sideways ? s->codecpar->width : s->codecpar->height;
	r->fps = rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
	return r->width > 0 && r->height > 0 ? NULL : "does not say its size";
}

/* --- the stream of sound ----------------------------------------------------------------- */

static const char *reel_open_ear(struct reel *r)
{
	static const char unknown[] = "has sound in none of the codecs that are read: AAC, Opus, "
				      "Vorbis, MP3, FLAC and PCM";
	const AVCodec *codec = NULL;
	r->sound = av_find_best_stream(r->format, AVMEDIA_TYPE_AUDIO, -1, r->stream, &codec, 0);
	if (r->sound < 0)
		return r->sound == AVERROR_DECODER_NOT_FOUND ? unknown : NULL;
	return reel_open_codec(r, r->format->streams[r->sound], codec, 0, unknown, &r->ear);
}

/* --- its packets ------------------------------------------------------------------------- */

static int64_t reel_time(const AVPacket *p)
{
	return p->pts != AV_NOPTS_VALUE ? p->pts : p->dts;
}

/* Is nothing shown for this packet? Of VP8, a picture that only others are made of. */
static bool reel_is_hidden(const struct reel *r, const AVPacket *p)
{
	return (p->flags & AV_PKT_FLAG_DISCARD) || reel_time(p) == AV_NOPTS_VALUE ||
	       (r->decoder->codec_id == AV_CODEC_ID_VP8 && p->size > 0 && !(p->data[0] & 0x10));
}

/* An array of n is full whenever n is a power of two: then one of twice as many. */
static void *reel_grow(void *p, int64_t n, size_t size)
{
	return (n & (n - 1)) == 0 ? realloc(p, (n ? 2 * (size_t)n : 1) * size) : p;
}

static bool reel_keep(struct reel *r, AVPacket *p)
{
	struct reel_packets *to = p->stream_index == r->stream ? &r->packets : &r->sounds;
	AVPacket **packets = reel_grow(to->p, to->n, sizeof(*packets));
	if (!packets)
		return false;
	to->p = packets;
	to->p[to->n++] = p;
	if (to == &r->sounds || reel_is_hidden(r, p))
		return true;
	int64_t *times = reel_grow(r->times, r->n_frames, sizeof *times);
	if (!times)
		return false;
	r->times = times;
	r->times[r->n_frames++] = reel_time(p);
	return true;
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static const char *reel_collect(struct reel *r)
{
	for (unsigned i = 0; i < r->format->nb_streams; i++)
		if ((int)i != r->stream && (int)i != r->sound)
			r->format->streams[i]->discard = AVDISCARD_ALL;
	for (;;) {
		AVPacket *p = av_packet_alloc();
		int error = p ? av_read_frame(r->format, p) : AVERROR(ENOMEM);
		if (error == AVERROR(ENOMEM))
			return no_memory;
		if (error < 0) /* the end, or where the file was cut */
			break;
		if (p->stream_index != r->stream && p->stream_index != r->sound) {
			av_packet_free(&p);
			continue;
		}
		if (MAX(r->packets.n, r->sounds.n) == VIDEO_WIRE_MAX_FRAMES)
			return "has more frames than this server reads";
		if (!reel_keep(r, p))
			return no_memory;
	}
	if (r->n_frames == 0)
		return "has no frame with a time";
	qsort(r->times, (size_t)r->n_frames, sizeof *r->times, compare_times);
	int64_t n = 1;
	for (int64_t i = 1; i < r->n_frames; i++)
		if (r->times[i] != r->times[n - 1])
			r->times[n++] = r->times[i];
	r->n_frames = n;
	return NULL;
}

/* Of a file that does not say it: by its times. */
static void reel_guess_fps(struct reel *r)
{
	double unit = av_q2d(r->format->streams[r->stream]->time_base);
	double span = (double)r->times[r->n_frames - 1] - (double)r->times[0];
	if (r->fps <= 0 && span > 0 && unit > 0)
		r->fps = (double)(r->n_frames - 1) / (span * unit);
	if (!isfinite(r->fps))
		r->fps = 0;
}

const char *reel_open(struct reel *r, const uint8_t *file, int64_t n, int64_t max_pixels,
		      bool hears)
{
	*r = (struct reel){.in = {file, n, 0}, .sound = -1};
	av_log_set_level(AV_LOG_QUIET);
	const char *fault = reel_open_file(r, hears);
	if (!fault)
		fault = reel_open_decoder(r, max_pixels);
	if (!fault && hears)
		fault = reel_open_ear(r);
	if (!fault)
		fault = reel_collect(r);
	if (!fault)
		reel_guess_fps(r);
	return fault;
}

/* --- its sound --------------------------------------------------------------------------- */

/* Sample i of a channel, full scale -1 to 1. */
static float reel_sample(const AVFrame *f, int channel, int n_channels, int i)
{
	enum AVSampleFormat format = (enum AVSampleFormat)f->format;
	bool is_planar = av_sample_fmt_is_planar(format);
	const uint8_t *p = f->extended_data[is_planar ? channel : 0];
	size_t at = is_planar ? (size_t)i : (size_t)i * (size_t)n_channels + (size_t)channel;
	switch (av_get_packed_sample_fmt(format)) {
	case AV_SAMPLE_FMT_U8:
		return ((float)p[at] - 128) / 128;
	case AV_SAMPLE_FMT_S16:
		return (float)((const int16_t *)p)[at] / 32768;
	case AV_SAMPLE_FMT_S32:
		return (float)((const int32_t *)p)[at] / 2147483648.0f;
	case AV_SAMPLE_FMT_FLT:
		return ((const float *)p)[at];
	case AV_SAMPLE_FMT_DBL:
		return (float)((const double *)p)[at];
	default:
		return 0; /* no decoder of these makes others */
	}
}

static const char *reel_mix(struct reel *r, const AVFrame *f,
			    void (*emit)(const struct reel *r, const float *samples, int n))
{
	static float mono[VIDEO_WIRE_MAX_SAMPLES];
	int n_channels = f->ch_layout.nb_channels, n = 0;
	if (r->rate && f->sample_rate != r->rate)
		return "changes the rate of its sound";
	r->rate = f->sample_rate;
	for (int i = 0; i < f->nb_samples && n_channels > 0; i++) {
		float sum = 0;
		for (int c = 0; c < n_channels; c++)
			sum += reel_sample(f, c, n_channels, i);
		mono[n++] = sum / (float)n_channels;
		if (n == VIDEO_WIRE_MAX_SAMPLES || i == f->nb_samples - 1) {
			emit(r, mono, n);
			n = 0;
		}
	}
	return NULL;
}

const char *reel_hear(struct reel *r,
		      void (*emit)(const struct reel *r, const float *samples, int n))
{
	AVFrame *f = av_frame_alloc();
	const char *fault = f ? NULL : no_memory;
	for (int64_t at = 0; r->ear && at <= r->sounds.n && !fault; at++) {
		/* A broken packet has no sound. NULL: the decoder gives what it still has. */
		int error = avcodec_send_packet(r->ear, at < r->sounds.n ? r->sounds.p[at] : NULL);
		if (error == AVERROR(ENOMEM))
			return no_memory;
		while (!fault && avcodec_receive_frame(r->ear, f) >= 0)
			fault = reel_mix(r, f, emit);
	}
	if (fault || !r->ear || r->rate || r->sounds.n == 0)
		return fault;
	return "has sound that cannot be decoded";
}

/* --- its frames -------------------------------------------------------------------------- */

/* By libav's own rules, as everybody's players have it. A frame of another size is made the
 * stream's. */
static bool reel_convert(struct reel *r, const AVFrame *f)
{
	int w = r->turns & 1 ? r->height : r->width, h = r->turns & 1 ? r->width : r->height;
	uint8_t *const planes[4] = {r->coded};
	const int strides[4] = {3 * w};
	r->scaler = sws_getCachedContext(r->scaler, f->width, f->height,
					 (enum AVPixelFormat)f->format, w, h, AV_PIX_FMT_RGB24,
					 SWS_BILINEAR, NULL, NULL, NULL);
	if (!r->scaler)
		return false;
	bool is_full = f->color_range == AVCOL_RANGE_JPEG;
	sws_setColorspaceDetails(r->scaler, sws_getCoefficients(f->colorspace), is_full,
				 sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
	return sws_scale(r->scaler, (const uint8_t *const *)f->data, f->linesize, 0, f->height,
			 planes, strides) == h;
}

static const uint8_t *reel_turn(struct reel *r)
{
	int64_t w = r->width, h = r->height;
	if (r->turns == 0)
		return r->coded;
	for (int64_t y = 0; y < h; y++)
		for (int64_t x = 0; x < w; x++) {
			int64_t from = r->turns == 1   ? (w - 1 - x) * h + y
				       : r->turns == 2 ? (h - 1 - y) * w + w - 1 - x
						       : x * h + h - 1 - y;
			memcpy(r->shown + 3 * (y * w + x), r->coded + 3 * from, 3);
		}
	return r->shown;
}

/* The last key frame from which the frame of this time can be decoded, if it lies further on. */
static int64_t reel_jump(const struct reel *r, int64_t at, int64_t time)
{
	int64_t best = at;
	for (int64_t i = at; i < r->packets.n; i++)
		if ((r->packets.p[i]->flags & AV_PKT_FLAG_KEY) &&
		    reel_time(r->packets.p[i]) <= time)
			best = i;
	return best;
}

struct showing {
	const int64_t *frames;
	int n, i; /* i: the next one to show */
	void (*emit)(const struct reel *r, int i, const uint8_t *rgb);
};

/* Shows the decoded frame as each of those that are due at its time. */
static const char *reel_show(struct reel *r, const AVFrame *f, struct showing *s)
{
	const uint8_t *rgb = NULL;
	while (s->i < s->n && r->times[s->frames[s->i]] <= f->best_effort_timestamp) {
		if (!rgb && !reel_convert(r, f))
			return "has pixels that cannot be converted";
		rgb = rgb ? rgb : reel_turn(r);
		s->emit(r, s->i++, rgb);
	}
	return NULL;
}

const char *reel_play(struct reel *r, const int64_t *frames, int n,
		      void (*emit)(const struct reel *r, int i, const uint8_t *rgb))
{
	struct showing s = {frames, n, 0, emit};
	int jumped = -1; /* the frame for which the way was shortened */
	/* libswscale may write a little beyond a row. */
	size_t room = 3 * (size_t)r->width * (size_t)r->height + 64;
	AVFrame *f = av_frame_alloc();
	const char *fault = NULL;
	r->coded = av_malloc(room);
	r->shown = av_malloc(room);
	if (!f || !r->coded || !r->shown)
		return no_memory;
	for (int64_t at = 0; s.i < n && !fault; at++) {
		int64_t to = s.i > jumped ? reel_jump(r, at, r->times[frames[s.i]]) : at;
		if (to > at)
			avcodec_flush_buffers(r->decoder);
		jumped = s.i;
		at = to;
		if (at > r->packets.n)
			return "is cut off or broken: a frame that its index has is not there";
		/* A broken packet has no picture. NULL: the decoder gives what it still has. */
		int error = avcodec_send_packet(r->decoder,
						at < r->packets.n ? r->packets.p[at] : NULL);
		if (error == AVERROR(ENOMEM))
			return no_memory;
		while (!fault && avcodec_receive_frame(r->decoder, f) >= 0)
			fault = reel_show(r, f, &s);
	}
	return fault;
}

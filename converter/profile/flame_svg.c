// SPDX-License-Identifier: Apache-2.0
//
// The picture of a flame tree: the root on top, one box a frame, as wide as its weight. Without a
// script it can be looked at; its script zooms and searches, and needs nothing from elsewhere.
// Names come from traces: they are escaped, and what is no text in UTF-8 becomes '?'. Boxes below
// the least share are left out with all below them, which bounds the file.
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "converter/profile/flame.h"

enum { PICTURE_WIDTH = 1200, ROW_HEIGHT = 18, TOP = 64, CHARACTER_TENTHS = 66 };

static const char style[] =
    "text{font:11px monospace;fill:#1c1c1c}.t{font:bold 16px sans-serif}.s{fill:#666}"
    ".b{cursor:pointer;fill:#1a5fb4}g.f{cursor:pointer}g.f:hover rect{stroke:#333}"
    "g.m rect{fill:#d05ce3!important}g.a{opacity:.55}";

static const char script[] =
    "var W=1200,P=6.6,F=[].slice.call(document.querySelectorAll('g.f')),"
    "$=function(i){return document.getElementById(i)};"
    "function full(g){return g.querySelector('title').textContent}"
    "function put(g,x,w){var r=g.querySelector('rect'),t=g.querySelector('text'),"
    "n=g.getAttribute('data-n'),k=Math.floor((w-6)/P);"
    "r.setAttribute('x',x);r.setAttribute('width',Math.max(w-.5,.2));t.setAttribute('x',x+3);"
    "t.textContent=k<3?'':n.length<=k?n:n.slice(0,k-2)+'..'}"
    "function zoom(x,w,d){F.forEach(function(g){var gx=+g.getAttribute('data-x'),"
    "gw=+g.getAttribute('data-w'),gd=+g.getAttribute('data-d'),e=1e-6;"
    "var up=gd<d&&gx<=x+e&&gx+gw>=x+w-e,inside=gd>=d&&gx>=x-e&&gx+gw<=x+w+e;"
    "g.style.display=up||inside?'':'none';g.classList.toggle('a',up);"
    "if(up)put(g,0,W);else if(inside)put(g,(gx-x)/w*W,gw/w*W)})}"
    "function reset(){zoom(0,W,0)}"
    "function find(q){var r=null,s=0,end=-1;"
    "if(q)try{r=new RegExp(q,'i')}catch(e){$('found').textContent='not a pattern';return}"
    "var hit=F.filter(function(g){var m=!!r&&r.test(g.getAttribute('data-n'));"
    "g.classList.toggle('m',m);return m});"
    "hit.sort(function(a,b){return a.getAttribute('data-x')-b.getAttribute('data-x')||"
    "b.getAttribute('data-w')-a.getAttribute('data-w')});"
    "hit.forEach(function(g){var x=+g.getAttribute('data-x'),w=+g.getAttribute('data-w');"
    "if(x>=end-1e-6){s+=w;end=x+w}});"
    "$('found').textContent=r?'found: '+(s/W*100).toFixed(2)+'%':''}"
    "F.forEach(function(g){g.addEventListener('click',function(){"
    "zoom(+g.getAttribute('data-x'),+g.getAttribute('data-w'),+g.getAttribute('data-d'))});"
    "g.addEventListener('mouseover',function(){$('say').textContent=full(g).replace(/\\n/g,' "
    "')})});"
    "$('reset').addEventListener('click',reset);"
    "$('search').addEventListener('click',function(){find(prompt('Regular expression',''))});"
    "window.addEventListener('keydown',function(e){if(e.key=='Escape'){reset();find('')}"
    "if(e.key=='/'){e.preventDefault();find(prompt('Regular expression',''))}});";

// At most `max` characters of `text`, escaped.
static void escaped(const char *text, size_t max, FILE *out)
{
    const char *end = text + strlen(text);
    while (text < end && max-- > 0) {
        bool printable;
        size_t size = str_character(text, end, &printable);
        uint32_t point = 0;
        if (!printable || !str_utf8_decode(text, end, &point) || point == 0xfffe || point == 0xffff)
            putc('?', out);
        else if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '>')
            fputs("&gt;", out);
        else if (*text == '"')
            fputs("&quot;", out);
        else
            fwrite(text, 1, size, out);
        text += size;
    }
}

static size_t n_characters(const char *text)
{
    size_t n = 0;
    bool printable;
    for (const char *end = text + strlen(text); text < end; n++)
        text += str_character(text, end, &printable);
    return n;
}

// Differences: red grew, blue shrank, the stronger the larger the part of the box. Otherwise warm
// colours that stay with the name.
static void colour(const struct flame *flame, const struct flame_node *node, const char *name,
                   FILE *out)
{
    if (!flame->is_diff) {
        uint64_t hash = hash_bytes(name, strlen(name));
        fprintf(out, "hsl(%u,%u%%,%u%%)", (unsigned)(18 + hash % 34),
                (unsigned)(62 + hash / 64 % 20), (unsigned)(66 + hash / 4096 % 10));
        return;
    }
    double change =
        ((double)node->after - (double)node->before) / (double)(node->width > 0 ? node->width : 1);
    double strength = change < 0 ? -change : change;
    unsigned light = (unsigned)(92 - 32 * (strength > 1 ? 1 : strength));
    fprintf(out, "hsl(%u,%u%%,%u%%)", change < 0 ? 215U : 5U, change > 0 || change < 0 ? 75U : 0U,
            light);
}

static void box(const struct flame *flame, const struct flame_look *look, uint32_t id, double x,
                double width, FILE *out)
{
    const struct flame_node *node = &flame->nodes.items[id], *root = flame->nodes.items;
    const char *name = strset_text(&flame->names, node->name);
    size_t room = width > 6 ? (size_t)((width - 6) * 10 / CHARACTER_TENTHS) : 0;
    size_t n = n_characters(name);
    unsigned y = TOP + node->depth * ROW_HEIGHT;
    fprintf(out, "<g class=\"f\" data-x=\"%.4f\" data-w=\"%.4f\" data-d=\"%u\" data-n=\"", x, width,
            (unsigned)node->depth);
    escaped(name, SIZE_MAX, out);
    fputs("\"><title>", out);
    escaped(name, SIZE_MAX, out);
    fputs("\n", out);
    if (flame->is_diff)
        fprintf(out, "%lld to %lld %s (%+lld)", (long long)node->before, (long long)node->after,
                look->unit, (long long)(node->after - node->before));
    else
        fprintf(out, "%lld %s (%.2f%%), itself %lld", (long long)node->after, look->unit,
                (double)node->after / (double)(root->width > 0 ? root->width : 1) * 100,
                (long long)node->self_after);
    fprintf(out, "</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" rx=\"2\" fill=\"",
            x, y, width > 0.7 ? width - 0.5 : 0.2, ROW_HEIGHT - 1);
    colour(flame, node, name, out);
    fprintf(out, "\"/><text x=\"%.2f\" y=\"%u\">", x + 3, y + 13);
    if (room >= 3) {
        escaped(name, n <= room ? n : room - 2, out);
        if (n > room)
            fputs("..", out);
    }
    fputs("</text></g>\n", out);
}

void flame_svg(const struct flame *flame, const struct flame_look *look, FILE *out)
{
    size_t n = flame->nodes.n, n_hidden = 0;
    const struct flame_node *nodes = flame->nodes.items;
    double whole = n && nodes[0].width > 0 ? (double)nodes[0].width : 1;
    uint32_t deepest = 0;
    // Where the next child of a node begins; negative: the node is not drawn.
    CLEANUP(freep) double *begin = calloc(n + 1, sizeof(*begin));
    CLEANUP(freep) double *left = calloc(n + 1, sizeof(*left));
    if (!begin || !left)
        return;
    for (size_t i = 0; i < n; i++) {
        double share = (double)nodes[i].width / whole;
        if (i > 0) {
            double *parent = &begin[nodes[i].parent];
            bool drawn = *parent >= 0 && share > 0 && share >= look->min_share;
            left[i] = drawn ? *parent : -1;
            if (*parent >= 0)
                *parent += share * PICTURE_WIDTH;
        }
        begin[i] = left[i];
        n_hidden += left[i] < 0;
        if (left[i] >= 0 && nodes[i].depth > deepest)
            deepest = nodes[i].depth;
    }
    unsigned height = TOP + (deepest + 1) * ROW_HEIGHT + 28;
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
            "viewBox=\"0 0 %d %u\" width=\"%d\" height=\"%u\">\n<style>%s</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fcfbf9\"/>\n<text class=\"t\" x=\"8\" "
            "y=\"24\">",
            PICTURE_WIDTH, height, PICTURE_WIDTH, height, style);
    escaped(look->title, 120, out);
    fprintf(out,
            "</text>\n<text class=\"s\" id=\"say\" x=\"8\" y=\"48\">%zu frames, %zu too small to "
            "show</text>\n<text class=\"b\" id=\"reset\" x=\"1020\" y=\"24\">reset</text>"
            "<text class=\"b\" id=\"search\" x=\"1070\" y=\"24\">search</text>"
            "<text class=\"s\" id=\"found\" x=\"1020\" y=\"48\"></text>\n",
            n ? n - 1 : 0, n_hidden);
    for (size_t i = 0; i < n; i++)
        if (left[i] >= 0)
            box(flame, look, (uint32_t)i, left[i], (double)nodes[i].width / whole * PICTURE_WIDTH,
                out);
    fprintf(out, "<script><![CDATA[%s]]></script>\n</svg>\n", script);
}

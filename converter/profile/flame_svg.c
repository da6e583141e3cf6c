// SPDX-License-Identifier: Apache-2.0
//
// The picture of a flame tree: the root on top, a box for each frame, as wide as its weight. The
// picture is readable without its script. The script zooms, searches and uses the window's whole
// width, and loads nothing. Names come from traces: they are escaped, and invalid UTF-8 becomes
// '?'. Boxes below the least share are left out with their children, which limits the size of the
// file.
#include <errno.h>
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
    "var D=1200,P=6.6,W=D,V=[0,D,0],R=document.documentElement,"
    "F=[].slice.call(document.querySelectorAll('g.f')),"
    "$=function(i){return document.getElementById(i)};"
    "function num(g,k){return +g.getAttribute('data-'+k)}"
    "function full(g){return g.querySelector('title').textContent}"
    "function put(g,x,w){var r=g.querySelector('rect'),t=g.querySelector('text'),"
    "n=g.getAttribute('data-n'),k=Math.floor((w-6)/P);"
    "r.setAttribute('x',x);r.setAttribute('width',Math.max(w-.5,.2));t.setAttribute('x',x+3);"
    "t.textContent=k<3?'':n.length<=k?n:n.slice(0,k-2)+'..'}"
    "function zoom(x,w,d){V=[x,w,d];F.forEach(function(g){var gx=num(g,'x'),"
    "gw=num(g,'w'),gd=num(g,'d'),e=1e-4;"
    "var up=gd<d&&gx<=x+e&&gx+gw>=x+w-e,inside=gd>=d&&gx>=x-e&&gx+gw<=x+w+e;"
    "g.style.display=up||inside?'':'none';g.classList.toggle('a',up);"
    "if(up)put(g,0,W);else if(inside)put(g,(gx-x)/w*W,gw/w*W)})}"
    "function fit(){if(window.parent!==window)return;W=Math.max(400,window.innerWidth);"
    "var h=R.getAttribute('height');R.setAttribute('width',W);R.setAttribute('viewBox','0 0 '+W+' "
    "'+h);"
    "$('reset').setAttribute('x',W-120);$('search').setAttribute('x',W-70);"
    "$('found').setAttribute('x',W-140);zoom(V[0],V[1],V[2])}"
    "function reset(){zoom(0,D,0)}"
    "function find(q){var r=null,s=0,end=-1;"
    "if(q)try{r=new RegExp(q,'i')}catch(e){$('found').textContent='not a pattern';return}"
    "var hit=F.filter(function(g){var m=!!r&&r.test(g.getAttribute('data-n'));"
    "g.classList.toggle('m',m);return m});"
    "hit.sort(function(a,b){return num(a,'x')-num(b,'x')||num(b,'w')-num(a,'w')});"
    "hit.forEach(function(g){var x=num(g,'x'),w=num(g,'w');"
    "if(x>=end-1e-4){s+=w;end=x+w}});"
    "$('found').textContent=r?'found: '+(s/D*100).toFixed(2)+'%':''}"
    "function ask(){var q=prompt('Regular expression','');if(q!==null)find(q)}"
    "F.forEach(function(g){g.addEventListener('click',function(){"
    "zoom(num(g,'x'),num(g,'w'),num(g,'d'))});"
    "g.addEventListener('mouseover',function(){$('say').textContent=full(g).replace(/\\n/g,'   "
    "')})});"
    "$('reset').addEventListener('click',reset);$('search').addEventListener('click',ask);"
    "window.addEventListener('resize',fit);"
    "window.addEventListener('keydown',function(e){if(e.key=='Escape'){reset();find('')}"
    "if(e.key=='/'){e.preventDefault();ask()}});fit();";

// Writes at most `max` characters of `text`, escaped.
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

// Formats a number with commas between thousands. Returns `ret`.
static const char *grouped(char *ret, size_t size, int64_t value, bool sign)
{
    char digits[32];
    int n = snprintf(digits, sizeof(digits), "%lld", (long long)(value < 0 ? value : -value));
    size_t k = 0;
    if (value < 0 || sign)
        ret[k++] = value < 0 ? '-' : '+';
    // digits[0] is '-', except for 0.
    for (int i = value ? 1 : 0; i < n && k + 2 < size; i++) {
        ret[k++] = digits[i];
        if ((n - i) % 3 == 1 && i + 1 < n)
            ret[k++] = ',';
    }
    ret[k] = 0;
    return ret;
}

void flame_title(char *ret, size_t size, const struct flame *flame, const char *what,
                 const char *unit)
{
    const struct flame_node *root = flame->nodes.items;
    char before[40], after[40], change[40], human[40] = "";
    int64_t shown = flame->is_diff ? root->after - root->before : root->after;
    double value = shown < 0 ? -(double)shown : (double)shown;
    int step = 0;
    for (; value >= 1024 && step < 5; step++)
        value /= 1024;
    if (str_eq(unit, "bytes") && step > 0)
        snprintf(human, sizeof(human), "%s%.1f %ciB, ",
                 !flame->is_diff ? ""
                 : shown < 0     ? "-"
                                 : "+",
                 value, "BKMGTP"[step]);
    grouped(before, sizeof(before), root->before, false);
    grouped(after, sizeof(after), root->after, false);
    grouped(change, sizeof(change), root->after - root->before, true);
    if (flame->is_diff)
        snprintf(ret, size, "%s: %s%s to %s %s (%s)", what, human, before, after, unit, change);
    else
        snprintf(ret, size, "%s: %s%s %s", what, human, after, unit);
}

// Writes the colour of a box. A difference is red for growth and blue for shrinkage, stronger for a
// larger part of the box. Otherwise the name decides a warm colour; a frame of which only the file
// is known is grey.
static void colour(const struct flame *flame, const struct flame_node *node, const char *name,
                   FILE *out)
{
    if (!flame->is_diff && *name == '[') {
        fputs("hsl(40,14%,82%)", out);
        return;
    }
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
    char a[40], b[40], c[40];
    if (flame->is_diff)
        fprintf(out, "%s to %s %s (%s)", grouped(a, sizeof(a), node->before, false),
                grouped(b, sizeof(b), node->after, false), look->unit,
                grouped(c, sizeof(c), node->after - node->before, true));
    else
        fprintf(out, "%s %s (%.2f%%), itself %s", grouped(a, sizeof(a), node->after, false),
                look->unit, (double)node->after / (double)(root->width > 0 ? root->width : 1) * 100,
                grouped(b, sizeof(b), node->self_after, false));
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

int flame_svg(const struct flame *flame, const struct flame_look *look, FILE *out)
{
    size_t n = flame->nodes.n, n_hidden = 0;
    const struct flame_node *nodes = flame->nodes.items;
    double whole = n && nodes[0].width > 0 ? (double)nodes[0].width : 1;
    uint32_t deepest = 0;
    // The left edge of a node's next child; negative: the node is not drawn.
    CLEANUP(freep) double *begin = calloc(n + 1, sizeof(*begin));
    CLEANUP(freep) double *left = calloc(n + 1, sizeof(*left));
    if (!begin || !left)
        return -ENOMEM;
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
            "show. Click: zoom; Esc: back; /: search</text>\n"
            "<text class=\"b\" id=\"reset\" x=\"1080\" y=\"24\">reset</text>"
            "<text class=\"b\" id=\"search\" x=\"1130\" y=\"24\">search</text>"
            "<text class=\"s\" id=\"found\" x=\"1060\" y=\"24\" text-anchor=\"end\"></text>\n",
            n ? n - 1 : 0, n_hidden);
    for (size_t i = 0; i < n; i++)
        if (left[i] >= 0)
            box(flame, look, (uint32_t)i, left[i], (double)nodes[i].width / whole * PICTURE_WIDTH,
                out);
    fprintf(out, "<script><![CDATA[%s]]></script>\n</svg>\n", script);
    return 0;
}

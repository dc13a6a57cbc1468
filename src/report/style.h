// The page's style sheet: light and dark by the reader's preference, one column on narrow screens.
#ifndef SLM_REPORT_STYLE_H_
#define SLM_REPORT_STYLE_H_

#include <string_view>

namespace slm::report {

inline constexpr std::string_view kStyle = R"css(
:root{--bg:#fbfbf9;--panel:#ffffff;--ink:#1b1d21;--muted:#5d636e;--line:#e2e2dc;--pass:#13703d;--pass-bg:#e3f4e9;
--fail:#b3261e;--fail-bg:#fbe6e4;--warn:#8a5a00;--warn-bg:#fdf0d3;--none:#5d636e;--none-bg:#eeeee9;
--s0:#1f5fbf;--s1:#b4540a;--s2:#7a3fb0;--s3:#11776f;color-scheme:light dark}
@media (prefers-color-scheme:dark){:root{--bg:#15171a;--panel:#1c1f24;--ink:#e8e8e4;--muted:#a0a6b1;--line:#31353d;
--pass:#7fd8a2;--pass-bg:#153524;--fail:#ff9d94;--fail-bg:#46201d;--warn:#f2c66d;--warn-bg:#3d2f10;--none:#a0a6b1;
--none-bg:#2a2e35;--s0:#7fb2ff;--s1:#ffab6b;--s2:#cba0f5;--s3:#6fd6cb}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main,header,footer{max-width:64rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem}
h1{font-size:1.75rem;line-height:1.25;margin:0 0 .25rem;letter-spacing:-.01em;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.75rem 0 .35rem;letter-spacing:-.005em}
h3{font-size:1rem;margin:1.5rem 0 .25rem}
p{margin:.35rem 0 .9rem;max-width:46rem}
.lead{color:var(--muted);margin:0 0 1.25rem}
.muted{color:var(--muted)}
code,.num,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875em}
.id{display:inline-block;max-width:12ch;overflow:hidden;white-space:nowrap;vertical-align:bottom;user-select:all;
border-bottom:1px dotted var(--muted);cursor:copy}
a.id{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875em;color:inherit;text-decoration:none;cursor:pointer}
.nodes li{margin:.35rem 0}.nodes li:target{background:var(--warn-bg)}
.id:focus-visible,summary:focus-visible{outline:2px solid var(--s0);outline-offset:2px}
.id:hover,.id:focus{max-width:100%;white-space:normal;overflow-wrap:anywhere;outline:none;color:var(--s0)}
.summary{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.25rem 0 0;padding:0;list-style:none}
.summary li{background:var(--panel);border:1px solid var(--line);border-radius:10px;padding:.7rem 1rem;min-width:9rem;flex:1}
.summary b{display:block;font-size:1.35rem;line-height:1.3;font-weight:650;font-variant-numeric:tabular-nums}
.summary span{color:var(--muted);font-size:.875rem}
table{border-collapse:collapse;width:100%;background:var(--panel)}
caption{text-align:left;color:var(--muted);font-size:.875rem;padding:0 0 .5rem}
th,td{text-align:left;vertical-align:top;padding:.5rem .7rem;border-bottom:1px solid var(--line)}
thead th{font-size:.8125rem;font-weight:600;color:var(--muted);white-space:nowrap}
tbody th{font-weight:600;white-space:nowrap}
td{overflow-wrap:anywhere}td.n{overflow-wrap:normal}
tbody tr:last-child>*{border-bottom:0}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.card{border:1px solid var(--line);border-radius:10px;background:var(--panel);overflow:hidden}
.scroll{overflow-x:auto}
.badge{display:inline-block;padding:.05rem .55rem;border-radius:999px;font-size:.8125rem;font-weight:600;white-space:nowrap;
color:var(--none);background:var(--none-bg)}
.pass{color:var(--pass);background:var(--pass-bg)}.fail,.error{color:var(--fail);background:var(--fail-bg)}
.unstable{color:var(--warn);background:var(--warn-bg)}
.big{font-size:1rem;padding:.25rem .9rem;vertical-align:.2em;margin-left:.4rem}
.first{color:var(--fail);font-size:.875rem;display:block;margin-top:.2rem;overflow-wrap:anywhere}
figure{margin:0;border:1px solid var(--line);border-radius:10px;background:var(--panel);padding:1rem}
.chart{width:100%;height:auto;display:block}
.chart text{fill:var(--muted);font:12px system-ui,sans-serif}
.grid{stroke:var(--line);fill:none}
.l{fill:none;stroke-width:2}.l.s1{stroke-dasharray:6 4}.l.s2{stroke-dasharray:2 3}.l.s3{stroke-dasharray:9 3 2 3}
.l.s0{stroke:var(--s0)}.l.s1{stroke:var(--s1)}.l.s2{stroke:var(--s2)}.l.s3{stroke:var(--s3)}
.m{stroke:var(--panel);stroke-width:1}.m.s0{fill:var(--s0)}.m.s1{fill:var(--s1)}.m.s2{fill:var(--s2)}.m.s3{fill:var(--s3)}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;list-style:none;margin:0 0 .6rem;padding:0;font-size:.875rem;color:var(--muted)}
.legend svg{vertical-align:-1px;margin-right:.4rem}
details{margin-top:.6rem;font-size:.9rem}summary{cursor:pointer;color:var(--muted)}
.numbers td,.numbers th{padding:.25rem .6rem}
.case{border:1px solid var(--line);border-radius:10px;background:var(--panel);margin:.75rem 0;overflow:hidden}
.case h3{margin:0;padding:.6rem .9rem;border-bottom:1px solid var(--line);display:flex;flex-wrap:wrap;gap:.6rem;align-items:center}
.case h3 small{color:var(--muted);font-weight:400}
.prompt{padding:.6rem .9rem;border-bottom:1px solid var(--line);color:var(--muted)}
.pair{display:grid;grid-template-columns:1fr 1fr}
.pair>div{padding:.6rem .9rem}.pair>div+div{border-left:1px solid var(--line)}
.pair h4{margin:0 0 .2rem;font-size:.8125rem;color:var(--muted);font-weight:600}
pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.8125rem;line-height:1.5}
.nl{color:var(--muted);opacity:.7}
ul.plain{padding-left:1.1rem;margin:.4rem 0}
footer{color:var(--muted);font-size:.875rem;padding-top:2.5rem;padding-bottom:3rem}
@media (max-width:40rem){h1{font-size:1.4rem}.pair{grid-template-columns:1fr}.pair>div+div{border-left:0;border-top:1px solid var(--line)}
.levels thead{display:none}.levels tr{display:grid;grid-template-columns:2.6rem 1fr auto;border-bottom:1px solid var(--line);padding:.4rem 0}
.levels th,.levels td{border:0;padding:.15rem .7rem}.levels td.wide{grid-column:2/4;color:var(--muted)}.levels td.n{display:none}
.chart.wide{min-width:34rem}figure{overflow-x:auto}}
@media print{body{background:#fff}.case,figure,.card{break-inside:avoid}}
)css";

}  // namespace slm::report

#endif  // SLM_REPORT_STYLE_H_

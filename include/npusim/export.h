/* What a shared library of npusim shows: everything that is declared in include/npusim, and nothing else. */
#ifndef NPUSIM_EXPORT_H
#define NPUSIM_EXPORT_H

#if defined(__GNUC__)
#define NPUSIM_API __attribute__((visibility("default")))
#else
#define NPUSIM_API
#endif

#endif

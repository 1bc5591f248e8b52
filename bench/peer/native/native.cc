// Puts an index in C++ through the work of the vector benchmarks. It is built
// for one library at a time, -DWITH_HNSWLIB, -DWITH_FAISS or -DWITH_SYMPHONYQG.
//
//   native BASE QUERIES DIM M EF_CONSTRUCTION METRIC
//
// The files hold native float32 vectors, of length one where METRIC is cosine; the others are
// dot and l2. It builds the index on
// one thread, and prints the seconds of processor time that took and the bytes of memory the index holds. For each
// line "ef k" that it reads it then asks all queries once, and prints a line for
// each: nanoseconds of processor time, and the rows found, best first.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#ifdef WITH_HNSWLIB
#include <hnswlib/hnswlib.h>

struct Index {
  std::unique_ptr<hnswlib::SpaceInterface<float>> space;
  hnswlib::HierarchicalNSW<float> graph;

  static hnswlib::SpaceInterface<float>* make(int dim, bool l2) {
    if (l2) return new hnswlib::L2Space(dim);
    return new hnswlib::InnerProductSpace(dim);
  }

  Index(const float* rows, size_t n, int dim, int m, int efc, bool l2)
      : space(make(dim, l2)), graph(space.get(), n, m, efc) {
    for (size_t i = 0; i < n; i++) graph.addPoint(rows + i * dim, i);
  }

  void search(const float* query, int ef, int k, std::vector<long>& found) {
    graph.setEf(ef);
    auto heap = graph.searchKnn(query, k);  // the worst on top
    found.resize(heap.size());
    for (size_t i = heap.size(); i-- > 0; heap.pop()) found[i] = heap.top().second;
  }
};
#endif

#ifdef WITH_FAISS
#include <faiss/IndexHNSW.h>
#include <omp.h>

struct Index {
  faiss::IndexHNSWFlat graph;
  std::vector<float> distances;

  Index(const float* rows, size_t n, int dim, int m, int efc, bool l2)
      : graph(dim, m, l2 ? faiss::METRIC_L2 : faiss::METRIC_INNER_PRODUCT) {
    omp_set_num_threads(1);
    graph.hnsw.efConstruction = efc;
    graph.add(n, rows);
  }

  void search(const float* query, int ef, int k, std::vector<long>& found) {
    graph.hnsw.efSearch = ef;
    found.resize(k);
    distances.resize(k);
    graph.search(1, query, k, distances.data(), found.data());
  }
};
#endif

#ifdef WITH_SYMPHONYQG
#include <iostream>
#include <rabitqlib/index/symqg/qg_builder.hpp>

// Rows of length one: their order by distance is that by cosine. A node has as many links
// as one in the lowest layer of the others.
struct Index {
  rabitqlib::symqg::QuantizedGraph<float> graph;
  std::vector<uint32_t> ids;

  Index(const float* rows, size_t n, int dim, int m, int efc, bool) : graph(n, dim, 2 * m) {
    std::cout.rdbuf(std::cerr.rdbuf());  // it tells what it does
    rabitqlib::symqg::QGBuilder(graph, efc, rows, 1).build();
  }

  void search(const float* query, int ef, int k, std::vector<long>& found) {
    graph.set_ef(ef);
    ids.resize(k);
    graph.search(query, k, ids.data());
    found.assign(ids.begin(), ids.end());
  }
};
#endif

static const float* map(const char* path, size_t* bytes) {
  int fd = open(path, O_RDONLY);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) {
    perror(path);
    exit(1);
  }
  *bytes = st.st_size;
  void* p = mmap(nullptr, *bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  if (p == MAP_FAILED) {
    perror(path);
    exit(1);
  }
  close(fd);
  return static_cast<const float*>(p);
}

static long long cpu() {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Resident memory that is not of a file: the vectors' files don't count.
static long long resident() {
  FILE* f = fopen("/proc/self/status", "r");
  char line[256];
  long long kb = 0;
  while (f && fgets(line, sizeof line, f)) sscanf(line, "RssAnon: %lld kB", &kb);
  if (f) fclose(f);
  return kb << 10;
}

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const int dim = atoi(argv[3]), m = atoi(argv[4]), efc = atoi(argv[5]);
  size_t bytes;
  const float* rows = map(argv[1], &bytes);
  const size_t n = bytes / sizeof(float) / dim;
  const float* queries = map(argv[2], &bytes);
  const size_t asked = bytes / sizeof(float) / dim;

  const long long before = resident();
  long long start = cpu();
  auto index = std::make_unique<Index>(rows, n, dim, m, efc, strcmp(argv[6], "l2") == 0);
  const long long took = cpu() - start;
  printf("%.6f %lld\n", took * 1e-9, resident() - before);
  fflush(stdout);

  std::vector<std::vector<long>> found(asked);
  std::vector<long long> times(asked);
  for (int ef, k; scanf("%d %d", &ef, &k) == 2;) {
    for (size_t i = 0; i < asked; i++) {
      start = cpu();
      index->search(queries + i * dim, ef, k, found[i]);
      times[i] = cpu() - start;
    }
    for (size_t i = 0; i < asked; i++) {
      printf("%lld", times[i]);
      for (long id : found[i]) printf(" %ld", id);
      printf("\n");
    }
    fflush(stdout);
  }
  _exit(0);  // the system frees faster than destructors do
}

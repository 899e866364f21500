# The book, built and served: docker build -t attention . && docker run --rm -p 8000:8000 attention
FROM python:3.12-slim
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
# The build of torch for processors; leave the line out where there is a GPU.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_NO_CACHE_DIR=1
WORKDIR /book
COPY . .
RUN make book
EXPOSE 8000
CMD [".venv/bin/python", "-m", "http.server", "--directory", "_build/html", "8000"]
